//! Pushes a component to a registry as a CNCF Wasm OCI artifact.

use crate::bundle::{Bundle, is_of_file};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::Descriptor;
use crate::registry::Registry;
use bytes::Bytes;
use wasmount_core::document::Reference;

/// An artifact that was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Its name by the digest of its manifest.
    pub reference: Reference,
    /// The digest of the component.
    pub digest: Digest,
    /// How many attached manifests were pushed with it.
    pub attached: usize,
}

impl Bundle {
    /// Pushes everything that the bundle holds, under the name that the registry was connected for: blobs first, then signatures, and the tag last,
    /// so that no client finds an incomplete artifact, or an unsigned one.
    pub async fn push(self, registry: &Registry) -> Result<Pushed, RegistryError> {
        let raw = self.raw;
        let digest = Digest::of(&self.component);
        registry
            .push_blob("the component", Bytes::from(self.component))
            .await?;
        registry
            .push_blob("the config", Bytes::from(self.config))
            .await?;
        let mut count = 0;
        // A registry has no use for signatures of a file.
        for beside in self.attached.into_iter().filter(|it| !is_of_file(it)) {
            count += 1;
            let signature = beside.raw;
            registry
                .push_blob("the config of a signature", Bytes::from(beside.config))
                .await?;
            for layer in beside.layers {
                registry
                    .push_blob("a signature", Bytes::from(layer))
                    .await?;
            }
            if beside.at_tag {
                // The target may already have signatures of the artifact.
                let manifest = Some((signature.media_type, signature.bytes));
                registry
                    .add_signatures(&raw.digest, signature.document.layers, manifest)
                    .await?;
            } else {
                let mut entry = Descriptor::of(&signature.media_type, &signature.bytes);
                entry.artifact_type = Some(signature.document.kind().to_owned());
                registry
                    .attach(&raw.digest, &entry, signature.bytes)
                    .await?;
            }
        }
        let reference = registry.reference().digest_or_tag();
        registry
            .push_manifest(reference, &raw.media_type, raw.bytes)
            .await?;
        Ok(Pushed {
            reference: registry.reference().pinned(raw.digest.to_string()),
            digest,
            attached: count,
        })
    }
}
