//! Signatures that lie beside an artifact in its registry, as they came. Apart because two have a use for them: whoever checks them, and whoever
//! takes them along in a bundle. What they say is not read here.
//!
//! They lie in two places: cosign's at a tag that is named after the digest, Sigstore's bundles among the referrers.

use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::media_type::{COSIGN_ARTIFACT_FAMILY, SIGSTORE_BUNDLE_FAMILY};
use crate::registry::{RawManifest, Registry};

/// Most manifests that are looked at, and most blobs of each: releases have a handful.
const MANIFESTS: usize = 32;
pub(crate) const BLOBS: usize = 32;
/// Largest blob, in bytes: a Sigstore bundle has about ten kilobytes.
pub(crate) const BLOB_BYTES: u64 = 64 << 10;

/// A manifest beside an artifact, and the bytes that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedManifest {
    /// The tag that it was found at; absent for a referrer.
    pub tag: Option<String>,
    /// It itself, as it came.
    pub raw: RawManifest,
    /// What it says.
    pub manifest: Manifest,
    /// Its config.
    pub config: Vec<u8>,
    /// The bytes of its layers, in their order; the first ones, of many.
    pub layers: Vec<Vec<u8>>,
}

/// Where cosign puts the signatures of a manifest (cosign, `specs/SIGNATURE_SPEC.md`).
pub fn cosign_tag(subject: &Digest) -> String {
    format!("sha256-{}.sig", subject.hex())
}

impl AttachedManifest {
    /// Each layer with its bytes.
    pub fn blobs(&self) -> impl Iterator<Item = (&Descriptor, &[u8])> {
        let bytes = self.layers.iter().map(Vec::as_slice);
        self.manifest.layers.iter().zip(bytes)
    }
}

impl Registry {
    /// All that is attached to a manifest and may be a signature.
    pub async fn attached(&self, subject: &Digest) -> Result<Vec<AttachedManifest>, RegistryError> {
        let mut found = Vec::new();
        let tag = cosign_tag(subject);
        if let Some(raw) = self.find_manifest(&tag).await? {
            found.extend(self.attachment(raw, Some(tag)).await?);
        }
        let referrers = self.referrers(subject).await?;
        let signatures = referrers.iter().filter(|it| may_sign(it)).take(MANIFESTS);
        for referrer in signatures {
            let raw = self.manifest(referrer.digest.as_str()).await?;
            let attachment = self.attachment(raw, None).await?;
            // The list is the registry's word, what the manifest speaks of is its own.
            found.extend(attachment.filter(|it| it.speaks_of(subject)));
        }
        Ok(found)
    }

    async fn attachment(
        &self,
        raw: RawManifest,
        tag: Option<String>,
    ) -> Result<Option<AttachedManifest>, RegistryError> {
        let Document::Manifest(manifest) = raw.document.clone() else {
            return Ok(None);
        };
        let config = self
            .blob(&manifest.config, "the config of a signature", BLOB_BYTES)
            .await?;
        let mut layers = Vec::new();
        for layer in manifest.layers.iter().take(BLOBS) {
            layers.push(self.blob(layer, "a signature", BLOB_BYTES).await?);
        }
        Ok(Some(AttachedManifest {
            tag,
            raw,
            manifest: *manifest,
            config,
            layers,
        }))
    }
}

impl AttachedManifest {
    fn speaks_of(&self, digest: &Digest) -> bool {
        let subject = self.manifest.subject.as_ref();
        subject.is_some_and(|subject| subject.digest == *digest)
    }
}

/// Whether it is called a signature: lists of contents and the like are left where they are.
fn may_sign(referrer: &Descriptor) -> bool {
    let kind = referrer.artifact_type.as_deref().unwrap_or_default();
    kind.starts_with(SIGSTORE_BUNDLE_FAMILY) || kind.starts_with(COSIGN_ARTIFACT_FAMILY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media_type::OCI_MANIFEST;

    #[test]
    fn signatures_are_told_from_other_things_that_speak_of_an_artifact() {
        for (kind, signs) in [
            (Some("application/vnd.dev.sigstore.bundle.v0.3+json"), true),
            (
                Some("application/vnd.dev.cosign.artifact.sig.v1+json"),
                true,
            ),
            (Some("application/spdx+json"), false),
            (None, false),
        ] {
            let mut referrer = Descriptor::of(OCI_MANIFEST, b"");
            referrer.artifact_type = kind.map(str::to_owned);
            assert_eq!(may_sign(&referrer), signs, "{kind:?}");
        }
    }
}
