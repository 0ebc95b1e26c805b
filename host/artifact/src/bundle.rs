//! An artifact with its attachments as one file, for use without a registry: a tar of an OCI image layout (OCI image specification 1.1, "Image
//! Layout"), which other tools read too.
//!
//! It holds one component, its config and manifest, and the signatures that lay beside it.

mod read;
mod tar;
mod write;

use crate::attached::{AttachedManifest, Attachment, Extent};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::fetch::Beside;
use crate::judged::judged;
use crate::manifest::{Annotations, ComponentFacts, Descriptor, Manifest, TITLE, WasmConfig, json};
use crate::media_type::{EMPTY, WASM_CONFIG, WASM_LAYER};
use crate::pull::Resolved;
use crate::registry::{RawManifest, Registry};
use crate::signature::{BUNDLE_TYPE, SignerKeys};
use std::io;

/// Largest config that is included, in bytes: a component's config lists its imports and exports.
pub(crate) const CONFIG_BYTES: u64 = 1 << 20;

/// The name of the file as which other tools, such as `oras pull`, write the component; they write no file for a layer without one. A constant: the
/// same component pushed twice is one artifact.
const FILE_NAME: &str = "component.wasm";

/// The artifact type of a manifest that holds the signatures of a file: they are over the bytes of the component, so no registry has a use for them.
/// Other tools ignore it.
const FILE_SIGNATURES: &str = "application/vnd.wasmount.file.signatures.v1+json";
/// The layer that is a `.sig` file.
const SIGNATURE: &str = "application/vnd.wasmount.file.signature.v1";
/// The bytes of an empty config.
const EMPTY_BYTES: &[u8] = b"{}";

/// One artifact with its blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub(crate) raw: RawManifest<Manifest>,
    pub(crate) config: Vec<u8>,
    pub(crate) component: Vec<u8>,
    pub(crate) attached: Vec<AttachedManifest>,
}

/// Why a file is not a valid bundle, or could not be written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The system returned an error.
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// Not a tar, or damaged.
    #[error("it is not a file of `wasmount save`: {0}")]
    NotATar(&'static str),
    /// An entry that does not belong in a bundle.
    #[error("`{entry}` in it {reason}; it is not a bundle of `wasmount save`, or was changed")]
    Entry {
        /// Name of the entry.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A required entry is missing.
    #[error("it has no `{0}`; it is not a bundle of `wasmount save`, or incomplete")]
    Missing(String),
    /// More than a bundle may hold.
    #[error("it has more than {0} {1}; it is not a bundle of one component")]
    TooMuch(u64, &'static str),
    /// A layout, but not of one component.
    #[error("it is not a bundle of one component: {0}")]
    NotOne(String),
}

impl Bundle {
    /// Builds a bundle of a component that is not in a registry yet.
    pub fn of_component(component: Vec<u8>, facts: &ComponentFacts) -> Self {
        let mut layer = Descriptor::of(WASM_LAYER, &component);
        layer
            .annotations
            .insert(TITLE.to_owned(), FILE_NAME.to_owned());
        let config = json(&WasmConfig::new(&layer.digest, facts));
        let descriptor = Descriptor::of(WASM_CONFIG, &config);
        let manifest = Manifest::new(descriptor, vec![layer], facts.annotations.clone());
        Self {
            raw: manifest.into(),
            config,
            component,
            attached: Vec::new(),
        }
    }

    /// Pulls an artifact from a registry, with its signatures. Also returns a message for each signature that could not be fetched: an incomplete
    /// signature is left out.
    pub async fn pull(registry: &Registry) -> Result<(Self, Vec<String>), RegistryError> {
        let found = Resolved::find(registry).await?;
        let raw = found.raw.clone();
        let (attached, missed) = registry.attached(&raw.digest).await;
        if let Some(trouble) = missed.trouble {
            return Err(trouble);
        }
        let mut left_out = missed.unread;
        if missed.left_out > 0 {
            left_out.push(format!("{} more, which are too many", missed.left_out));
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
        let attached = attached.into_iter().filter_map(Attachment::whole);
        let config = registry
            .blob(&raw.document.config, "the config", CONFIG_BYTES)
            .await?;
        let pulled = found.fetch(registry).await?;
        let bundle = Self {
            raw,
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

    /// The manifests attached to it.
    pub fn attached(&self) -> &[AttachedManifest] {
        &self.attached
    }

    /// Adds the signature files beside the component's file.
    pub fn with_beside(mut self, beside: Beside) -> Self {
        let Beside { signature, bundle } = beside;
        let kinds = [(SIGNATURE, signature), (BUNDLE_TYPE, bundle)];
        let (descriptors, layers): (Vec<_>, Vec<_>) = kinds
            .into_iter()
            .filter_map(|(kind, bytes)| bytes.map(|bytes| (Descriptor::of(kind, &bytes), bytes)))
            .unzip();
        if layers.is_empty() {
            return self;
        }
        let config = Descriptor::of(EMPTY, EMPTY_BYTES);
        let mut manifest = Manifest::new(config, descriptors, Annotations::new());
        manifest.artifact_type = Some(FILE_SIGNATURES.to_owned());
        manifest.subject = Some(Descriptor::of(&self.raw.media_type, &self.raw.bytes));
        self.attached.push(AttachedManifest {
            at_tag: false,
            raw: manifest.into(),
            config: EMPTY_BYTES.to_vec(),
            layers,
        });
        self
    }

    /// The signature files to write beside the component's file.
    pub fn beside(&self) -> Beside {
        let of = |kind: &str| {
            let attached = self.attached.iter().filter(|it| is_of_file(it));
            let mut layers = attached.flat_map(|it| it.raw.document.layers.iter().zip(&it.layers));
            let found = layers.find(|(layer, _)| layer.media_type == kind);
            found.map(|(_, bytes)| bytes.clone())
        };
        Beside {
            signature: of(SIGNATURE),
            bundle: of(BUNDLE_TYPE),
        }
    }

    /// The number of attached manifests that a registry has a use for: signatures of the artifact.
    pub fn of_registry(&self) -> usize {
        self.attached.iter().filter(|it| !is_of_file(it)).count()
    }
}

/// Whether the manifest holds signatures of a file.
pub(crate) fn is_of_file(attached: &AttachedManifest) -> bool {
    attached.raw.document.artifact_type.as_deref() == Some(FILE_SIGNATURES)
}

#[cfg(test)]
mod tests;
