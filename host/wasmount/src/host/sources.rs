//! The sources of a backend's components and secrets: files of this node, registries, Kubernetes.
//!
//! A component that is being written is not read; one that is not signed as its document requires is not returned.

use super::fetching::{RegistryConfig, Unfetched, fetch};
use super::secrets::{self, SecretError};
use super::settled_file::{self, Unsettled};
use crate::fault::chain;
use crate::regular_file::Refused;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{bundle_file, signature_file};
use wasmount_artifact::{FetchError, RegistryError};
use wasmount_core::document::{
    PluginPlace, PluginSource, PublicKey, RegistryPlace, SecretSource, StorageBackend,
};
use wasmount_core::secrets::Secrets;
use wasmount_kubernetes::storage_backend::SecretReader;
use wasmount_versions::{
    Component, Desired, Fetched, Origin, PLUGIN_BYTES, Refusal, Sources, check_kind,
};

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
            PluginPlace::Registry(place) => self.artifact(plugin, &desired.folder, place).await,
        }
    }

    async fn secrets(&self, desired: &Desired) -> Result<Secrets, Refusal> {
        let sources = desired.document.secrets.clone();
        let read = secrets::read(sources, self.secrets.as_ref()).await;
        read.map_err(|error: SecretError| Refusal::Secret(chain(&error)))
    }
}

impl HostSources {
    async fn artifact(
        &self,
        plugin: &PluginSource,
        folder: &Path,
        place: &RegistryPlace,
    ) -> Result<Fetched, Refusal> {
        let asked = place.reference.to_string();
        let config = match &place.credentials {
            None => None,
            Some(source) => {
                let config = secrets::credentials(source, self.secrets.as_ref()).await;
                let (content, found) = config.map_err(|error| Refusal::Source {
                    place: asked.clone(),
                    reason: format!("its credentials: {}", chain(&error)),
                    passes: true,
                })?;
                Some(RegistryConfig { content, found })
            }
        };
        let fetched = fetch(plugin, folder, config).await;
        let fetched = fetched.map_err(|error| refusal(error, &asked))?;
        let component = Component::of(fetched.wasm).await?;
        component.check_digest(plugin.digest.as_deref())?;
        check_kind(component.wasm())?;
        Ok(Fetched {
            component,
            origin: Origin::Registry {
                reference: fetched.reference.unwrap_or_else(|| asked.clone()),
                asked,
            },
            signed_by: fetched.signed_by,
        })
    }
}

/// A file: read completely, then checked for its digest, for the signatures of the document's keys, and that it is a component, in this order.
async fn file(plugin: &PluginSource, folder: &Path, path: &Path) -> Result<Fetched, Refusal> {
    let path = folder.join(path);
    let wasm = settled_file::read(&path, PLUGIN_BYTES)
        .await
        .map_err(|error| unsettled(error, &path))?;
    let component = Component::of(wasm).await?;
    component.check_digest(plugin.digest.as_deref())?;
    let mut fetched = Fetched {
        component,
        origin: Origin::File(path.clone()),
        signed_by: Vec::new(),
    };
    if !plugin.signers.is_empty() {
        let place = path.display().to_string();
        let signed = fetch(plugin, folder, None).await;
        let signed = signed.map_err(|error| refusal(error, &place))?;
        if signed.wasm != fetched.component.wasm() {
            return Err(Refusal::Source {
                place,
                reason: "somebody is writing it".to_owned(),
                passes: true,
            });
        }
        fetched.signed_by = signed.signed_by;
    }
    check_kind(fetched.component.wasm())?;
    Ok(fetched)
}

fn unsettled(error: Unsettled, path: &Path) -> Refusal {
    match error {
        Unsettled::Refused(refused) => unreadable(refused, path),
        error @ (Unsettled::Restless | Unsettled::Stopped) => Refusal::Source {
            place: path.display().to_string(),
            reason: format!("it {error}"),
            passes: true,
        },
    }
}

pub(super) fn unreadable(refused: Refused, path: &Path) -> Refusal {
    let path = path.to_owned();
    match refused {
        Refused::Unreadable(source) => Refusal::Unreadable { path, source },
        Refused::NotRegular => Refusal::NotAFile { path },
        Refused::TooLarge { most } => Refusal::TooLarge { limit: most },
    }
}

/// Why a component was not fetched, as a reason of admission.
fn refusal(error: Unfetched, place: &str) -> Refusal {
    let source = |reason: String, passes| Refusal::Source {
        place: place.to_owned(),
        reason,
        passes,
    };
    match error {
        Unfetched::Plugin { path, source } => unreadable(source, &path),
        Unfetched::Fetch(FetchError::Signature(error)) => Refusal::Signature(error.to_string()),
        Unfetched::Keys(error) => Refusal::Signature(chain(&error)),
        Unfetched::Fetch(FetchError::AnotherComponent { wanted, got, .. }) => {
            Refusal::OtherDigest { wanted, found: got }
        }
        Unfetched::Fetch(FetchError::Registry(error)) => {
            let passes = may_pass(&error);
            source(chain(&error), passes)
        }
        error @ Unfetched::Credentials(_) => source(chain(&error), false),
        error @ (Unfetched::File { .. }
        | Unfetched::Child(_)
        | Unfetched::Answer(_)
        | Unfetched::Stopped) => source(chain(&error), true),
    }
}

/// Whether a registry may succeed later with nothing changed here. Rejected credentials are not tried again: some registries lock an account
/// after too many failures.
fn may_pass(error: &RegistryError) -> bool {
    matches!(
        error,
        RegistryError::Down { .. }
            | RegistryError::Slow { .. }
            | RegistryError::Busy { .. }
            | RegistryError::Truncated { .. }
            | RegistryError::WrongDigest { .. }
            | RegistryError::NotFound { .. }
    )
}

/// Every file that a document refers to: when one changes, the backend is reconciled again.
pub(super) fn files(desired: &Desired) -> BTreeSet<PathBuf> {
    let StorageBackend {
        plugin, secrets, ..
    } = &desired.document;
    let mut files = BTreeSet::new();
    let mut secret = |source: &SecretSource| {
        if let SecretSource::File(path) = source {
            files.insert(desired.folder.join(path));
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
            files.extend(place.ca_file.iter().map(|path| desired.folder.join(path)));
        }
    }
    for key in plugin.signers.keys() {
        if let PublicKey::File(path) = key {
            files.insert(desired.folder.join(path));
        }
    }
    files
}

#[cfg(test)]
mod tests;
