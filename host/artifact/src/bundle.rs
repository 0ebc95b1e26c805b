//! An artifact with everything that belongs to it, as one file for where no registry is reached: a tar of an OCI image layout (OCI image
//! specification 1.1, "Image Layout"), which other tools read too.
//!
//! It holds one component, its config and manifest, and signatures that lay beside it.

mod beside_file;
mod read;
mod tar;
mod write;

pub(crate) use beside_file::is_of_file;

use crate::attached::{AttachedManifest, Attachment, BLOB_BYTES};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::judged::{Extent, judged};
use crate::manifest::{Descriptor, Document, Manifest, json};
use crate::media_type::{WASM_CONFIG, WASM_LAYER};
use crate::pull::Resolved;
use crate::registry::{MANIFEST_BYTES, RawManifest, Registry};
use crate::signature::SignerKeys;
use crate::wasm_config::{ComponentFacts, WasmConfig};
use std::io;

/// Largest config that is taken along, in bytes: a component's lists its imports and exports.
pub(crate) const CONFIG_BYTES: u64 = 1 << 20;
/// Largest of the small blobs of a bundle, in bytes.
const SMALL_BYTES: u64 = if MANIFEST_BYTES > BLOB_BYTES {
    MANIFEST_BYTES
} else {
    BLOB_BYTES
};

/// One artifact, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub(crate) raw: RawManifest,
    pub(crate) manifest: Manifest,
    pub(crate) config: Vec<u8>,
    pub(crate) component: Vec<u8>,
    pub(crate) attached: Vec<AttachedManifest>,
}

/// Why a file is not a bundle, or is not written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The system says no.
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// Not even a tar, or damaged.
    #[error("it is not a file of `wasmount save`: {0}")]
    NotATar(&'static str),
    /// Something in it that no bundle has.
    #[error("`{entry}` in it {reason}; it is no bundle of `wasmount save`, or was changed")]
    Entry {
        /// Which.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something that every bundle has.
    #[error("it has no `{0}`; it is no bundle of `wasmount save`, or is not whole")]
    Missing(String),
    /// More than any bundle has.
    #[error("it has more than {most} {what}; it is no bundle of one component")]
    TooMuch {
        /// The bound.
        most: u64,
        /// Of what.
        what: &'static str,
    },
    /// A layout, and not of one component.
    #[error("it is no bundle of one component: {0}")]
    NotOne(String),
}

impl Bundle {
    /// A component that was in no registry yet.
    pub fn of_component(component: Vec<u8>, facts: &ComponentFacts) -> Self {
        let layer = Descriptor::of(WASM_LAYER, &component);
        let config = json(&WasmConfig::new(layer.digest.clone(), facts));
        let descriptor = Descriptor::of(WASM_CONFIG, &config);
        let manifest = Manifest::new(descriptor, vec![layer], facts.annotations.clone());
        let bytes = manifest.to_bytes();
        let raw = RawManifest {
            digest: Digest::of(&bytes),
            media_type: manifest.media_type().to_owned(),
            document: Document::Manifest(Box::new(manifest.clone())),
            bytes,
        };
        Self {
            raw,
            manifest,
            config,
            component,
            attached: Vec::new(),
        }
    }

    /// One that is in a registry, with its signatures; and, in words, what of them could not be had: what is not whole is left out.
    pub async fn pull(registry: &Registry) -> Result<(Self, Vec<String>), RegistryError> {
        let found = Resolved::find(registry).await?;
        let raw = found.raw.clone();
        let manifest = found.manifest.clone();
        let attached = registry.attached(&raw.digest).await;
        if let Some(trouble) = attached.trouble() {
            return Err(trouble.clone());
        }
        let mut left_out: Vec<_> = attached.unread.iter().map(ToString::to_string).collect();
        if attached.left_out > 0 {
            left_out.push(format!("{} more, which are too many", attached.left_out));
        }
        if let Some(list) = &found.list {
            let of_list = judged(registry, list, &SignerKeys::default(), Extent::All).await;
            if !of_list.places.is_empty() {
                left_out.push(format!(
                    "signatures of the list {}: a bundle holds one manifest; sign that one",
                    list.digest
                ));
            }
        }
        let attached = attached.found.into_iter().filter_map(Attachment::whole);
        let config = registry
            .blob(&manifest.config, "the config", CONFIG_BYTES)
            .await?;
        let pulled = found.fetch(registry).await?;
        let bundle = Self {
            raw,
            manifest,
            config,
            component: pulled.wasm,
            attached: attached.collect(),
        };
        Ok((bundle, left_out))
    }

    /// The component.
    pub fn component(&self) -> &[u8] {
        &self.component
    }

    /// The digest of its manifest, by which registries know it.
    pub fn manifest_digest(&self) -> &Digest {
        &self.raw.digest
    }

    /// What is said of it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What lay beside it.
    pub fn attached(&self) -> &[AttachedManifest] {
        &self.attached
    }
}

#[cfg(test)]
mod tests;
