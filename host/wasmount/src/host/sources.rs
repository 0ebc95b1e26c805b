//! The sources of a backend's components and secrets: files of this node, registries, Kubernetes.
//!
//! A component that is being written is not read; one that is not signed as its document requires is not returned.

use super::fetching::{self, fetch};
use super::{secrets, settled_file};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{bundle_file, signature_file};
use wasmount_artifact::{Login, login};
use wasmount_core::document::{
    PluginPlace, PluginSource, PublicKey, RegistryPlace, SecretSource, StorageBackend,
};
use wasmount_core::secrets::Secrets;
use wasmount_core::text::chain;
use wasmount_kubernetes::storage_backend::SecretReader;
use wasmount_versions::{Component, Desired, Fetched, PLUGIN_BYTES, Refusal, Sources, check_kind};

/// The sources of a serving host.
pub(super) struct HostSources {
    /// Reads Secrets, if there is an API server.
    pub(super) secrets: Option<SecretReader>,
}

#[async_trait]
impl Sources for HostSources {
    async fn component(&self, desired: &Desired) -> Result<Fetched, Refusal> {
        let plugin = &desired.document.plugin;
        match &plugin.place {
            PluginPlace::File(path) => file(plugin, &desired.folder, path).await,
            PluginPlace::Registry(place) => self.artifact(plugin, place).await,
        }
    }

    async fn secrets(&self, desired: &Desired) -> Result<Secrets, Refusal> {
        let document = &desired.document;
        let read = secrets::read(document.secrets.clone(), self.secrets.as_ref()).await;
        let secrets = read.map_err(Refusal::Secret)?;
        Ok(secrets.with_identifiers(&document.grants.identifiers()))
    }
}

impl HostSources {
    async fn artifact(
        &self,
        plugin: &PluginSource,
        place: &RegistryPlace,
    ) -> Result<Fetched, Refusal> {
        let credentials = self.credentials(place).await?;
        let (name, registry) = (place.reference.to_string(), place.clone());
        let wanted = move || fetching::artifact(&registry, credentials);
        let fetched = fetch(plugin, &name, wanted).await?;
        let component = Component::of(fetched.wasm).await?;
        component.check_digest(plugin.digest.as_deref())?;
        check_kind(component.wasm())?;
        Ok(Fetched {
            component,
            origin: fetched.reference.unwrap_or(name),
            signed_by: fetched.signed_by,
        })
    }

    async fn credentials(&self, place: &RegistryPlace) -> Result<Option<Login>, Refusal> {
        let Some(source) = &place.credentials else {
            return Ok(None);
        };
        let failed = |reason, passes| Refusal::Source {
            place: place.reference.to_string(),
            reason,
            passes,
        };
        let config = secrets::credentials(source, self.secrets.as_ref()).await;
        let (config, found) =
            config.map_err(|reason| failed(format!("its credentials: {reason}"), true))?;
        let credentials = login(config.as_bytes(), &found, &place.reference);
        credentials.map_err(|error| failed(chain(&error), false))
    }
}

/// A file: read completely, then checked for its digest, for the signatures of the document's keys, and that it is a component, in this order.
async fn file(plugin: &PluginSource, folder: &Path, path: &Path) -> Result<Fetched, Refusal> {
    let path = folder.join(path);
    let wasm = settled_file::read(&path, PLUGIN_BYTES).await?;
    let component = Component::of(wasm).await?;
    component.check_digest(plugin.digest.as_deref())?;
    let origin = path.display().to_string();
    let mut signed_by = Vec::new();
    if !plugin.signers.is_empty() {
        let wasm = component.wasm().to_owned();
        let wanted = move || fetching::file(&path, wasm);
        signed_by = fetch(plugin, &origin, wanted).await?.signed_by;
    }
    check_kind(component.wasm())?;
    Ok(Fetched {
        component,
        origin,
        signed_by,
    })
}

/// Every file that a document refers to: when one changes, the backend is reconciled again.
pub(super) fn files(desired: &Desired) -> BTreeSet<PathBuf> {
    let StorageBackend {
        plugin, secrets, ..
    } = &desired.document;
    let mut files = BTreeSet::new();
    let mut secret = |source: &SecretSource| {
        if let SecretSource::File(path) = source {
            files.insert(path.clone());
        }
    };
    secrets.values().for_each(&mut secret);
    match &plugin.place {
        PluginPlace::File(path) => {
            let path = desired.folder.join(path);
            files.extend([signature_file(&path), bundle_file(&path), path]);
        }
        PluginPlace::Registry(place) => {
            place.credentials.iter().for_each(&mut secret);
            files.extend(place.ca_file.clone());
        }
    }
    for key in plugin.signers.keys() {
        if let PublicKey::File(path) = key {
            files.insert(path.clone());
        }
    }
    files
}

#[cfg(test)]
mod tests;
