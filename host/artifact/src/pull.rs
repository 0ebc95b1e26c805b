//! Pulls a component by its name. The name is resolved to a digest once; signatures are checked before the component itself is fetched.

use crate::COMPONENT_BYTES;
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::registry::{RawManifest, Registry};
use wasmount_core::document::Reference;

/// An artifact whose manifest was fetched, but not its component.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Its manifest.
    pub raw: RawManifest<Manifest>,
    /// The index that the name led to, if it was one: the index may be signed.
    pub list: Option<RawManifest>,
    layer: Descriptor,
}

/// A component that was fetched.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// Its bytes.
    pub wasm: Vec<u8>,
    /// Its digest.
    pub digest: Digest,
    /// Its name by the digest of its manifest.
    pub reference: Reference,
}

/// Resolves the name and fetches the component.
pub async fn pull(registry: &Registry) -> Result<Pulled, RegistryError> {
    Resolved::find(registry).await?.fetch(registry).await
}

impl Resolved {
    /// Resolves a name to a manifest.
    pub async fn find(registry: &Registry) -> Result<Self, RegistryError> {
        let reference = registry.reference();
        let not_wasm = |reason: String| {
            RegistryError::Other(format!("{reference} is not a Wasm artifact: {reason}"))
        };
        let first = registry.manifest(reference.digest_or_tag()).await?;
        let (raw, list) = match &first.document {
            Document::Manifest(_) => (first, None),
            Document::Index(index) => {
                let entry = index.component().map_err(not_wasm)?;
                let chosen = registry.manifest(entry.digest.as_str()).await?;
                (chosen, Some(first))
            }
        };
        let raw = raw.into_manifest();
        let raw = raw.ok_or_else(|| not_wasm("its list names another list".to_owned()))?;
        let layer = raw.document.component().map_err(not_wasm)?.clone();
        if layer.size > COMPONENT_BYTES {
            return Err(RegistryError::TooLarge {
                what: format!("the component of {reference}"),
                most: COMPONENT_BYTES,
            });
        }
        Ok(Self { raw, list, layer })
    }

    /// Digest of the component.
    pub fn component(&self) -> &Digest {
        &self.layer.digest
    }

    /// Fetches the component.
    pub async fn fetch(self, registry: &Registry) -> Result<Pulled, RegistryError> {
        let wasm = registry
            .blob(&self.layer, "the component", COMPONENT_BYTES)
            .await?;
        let reference = registry.reference().pinned(self.raw.digest.to_string());
        Ok(Pulled {
            wasm,
            digest: self.layer.digest,
            reference,
        })
    }
}
