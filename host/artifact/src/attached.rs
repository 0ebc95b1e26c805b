//! Signatures that lie beside an artifact in its registry, as they came. Apart because two have a use for them: whoever checks them, and whoever
//! takes them along in a bundle. What they say is not read here.
//!
//! They lie in two places: cosign's at a tag that is named after the digest, Sigstore's bundles among the referrers. Whoever may write to the
//! registry can put something broken there, and a registry loses things: what cannot be had is passed over with a remark, and hides nothing
//! that can.

mod unread;

use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::media_type::{COSIGN_ARTIFACT_FAMILY, SIGSTORE_BUNDLE_FAMILY};
use crate::registry::{RawManifest, Registry};
pub use unread::Unread;

/// Most manifests that are looked at, and most blobs of each: releases have a handful.
const MANIFESTS: usize = 32;
pub(crate) const BLOBS: usize = 32;
/// Largest blob, in bytes: a Sigstore bundle has about ten kilobytes.
pub(crate) const BLOB_BYTES: u64 = 64 << 10;

/// All that was found beside an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachments {
    /// What could be read, at least in part.
    pub found: Vec<Attachment>,
    /// What could not.
    pub unread: Vec<Unread>,
}

/// A manifest beside an artifact, with those of its bytes that could be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The tag that it was found at; absent for a referrer.
    pub tag: Option<String>,
    /// It itself, as it came.
    pub raw: RawManifest,
    /// What it says.
    pub manifest: Manifest,
    config: Option<Vec<u8>>,
    /// Of its layers, in their order; the first ones, of many.
    layers: Vec<Option<Vec<u8>>>,
}

/// A manifest beside an artifact, and the bytes that it names, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedManifest {
    /// Whether it lies at cosign's tag of the artifact; else it is a referrer. No other tag is kept: a stranger's would be one of other artifacts.
    pub at_tag: bool,
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

impl Attachments {
    /// The error for whoever needs all of it: the registry has trouble of its own, and another time more may be seen.
    pub fn trouble(&self) -> Option<&RegistryError> {
        let errors = self.unread.iter().map(Unread::error);
        errors.into_iter().find(|error| is_of_the_moment(error))
    }

    /// Why the manifest at this tag is not known, though there is one or may be.
    pub(crate) fn unread_tag(&self, tag: &str) -> Option<&RegistryError> {
        let place = tag_place(tag);
        let same = |unread: &&Unread| unread.place() == place;
        self.unread.iter().find(same).map(Unread::error)
    }
}

impl Attachment {
    /// Where it lies, in words.
    pub fn place(&self) -> String {
        match &self.tag {
            Some(tag) => tag_place(tag),
            None => referrer_place(&self.raw.digest),
        }
    }

    /// Each layer that was read, with its bytes.
    pub fn blobs(&self) -> impl Iterator<Item = (&Descriptor, &[u8])> {
        let both = self.manifest.layers.iter().zip(&self.layers);
        both.filter_map(|(layer, bytes)| Some((layer, bytes.as_deref()?)))
    }

    /// It with everything that it names, if that could be had.
    pub fn whole(self) -> Option<AttachedManifest> {
        let Self {
            tag,
            raw,
            manifest,
            config,
            layers,
        } = self;
        Some(AttachedManifest {
            at_tag: tag.is_some(),
            raw,
            manifest,
            config: config?,
            layers: layers.into_iter().collect::<Option<_>>()?,
        })
    }
}

impl Registry {
    /// All that is attached to a manifest and may be a signature.
    pub async fn attached(&self, subject: &Digest) -> Attachments {
        let mut looked = Looked::default();
        let tag = cosign_tag(subject);
        match self.find_manifest(&tag).await {
            Ok(None) => {}
            Ok(Some(raw)) => self.attachment(raw, Some(tag), &mut looked).await,
            Err(error) => looked.pass_over(tag_place(&tag), error),
        }
        if looked.is_at_an_end {
            return looked.attachments;
        }
        let referrers = match self.referrers(subject).await {
            Ok(referrers) => referrers,
            Err(error) => {
                looked.pass_over("the list of what refers to it".to_owned(), error);
                return looked.attachments;
            }
        };
        let signatures = referrers.iter().filter(|it| may_sign(it)).take(MANIFESTS);
        for referrer in signatures {
            if looked.is_at_an_end {
                break;
            }
            match self.manifest(referrer.digest.as_str()).await {
                // The list is the registry's word, what the manifest speaks of is its own.
                Ok(raw) if speaks_of(&raw, subject) => {
                    self.attachment(raw, None, &mut looked).await;
                }
                Ok(_) => {}
                Err(error) => looked.pass_over(referrer_place(&referrer.digest), error),
            }
        }
        looked.attachments
    }

    async fn attachment(&self, raw: RawManifest, tag: Option<String>, looked: &mut Looked) {
        let Document::Manifest(manifest) = raw.document.clone() else {
            return;
        };
        let mut attachment = Attachment {
            tag,
            raw,
            manifest: *manifest,
            config: None,
            layers: Vec::new(),
        };
        let config = &attachment.manifest.config;
        attachment.config = self
            .part(&attachment, config, "the config of a signature", looked)
            .await;
        for layer in attachment.manifest.layers.iter().take(BLOBS) {
            let bytes = self.part(&attachment, layer, "a signature", looked).await;
            attachment.layers.push(bytes);
        }
        looked.attachments.found.push(attachment);
    }

    /// A blob of an attachment, if it can be had.
    async fn part(
        &self,
        attachment: &Attachment,
        blob: &Descriptor,
        name: &str,
        looked: &mut Looked,
    ) -> Option<Vec<u8>> {
        if looked.is_at_an_end {
            return None;
        }
        match self.blob(blob, name, BLOB_BYTES).await {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let place = format!("{}: its blob {}", attachment.place(), blob.digest);
                looked.pass_over(place, error);
                None
            }
        }
    }
}

/// What was found so far.
#[derive(Default)]
struct Looked {
    attachments: Attachments,
    /// The registry does not answer any more, or the time is over: asking on would be in vain.
    is_at_an_end: bool,
}

impl Looked {
    fn pass_over(&mut self, place: String, error: RegistryError) {
        self.is_at_an_end |= matches!(
            error,
            RegistryError::Down { .. } | RegistryError::Slow { .. }
        );
        self.attachments.unread.push(Unread::new(place, error));
    }
}

fn tag_place(tag: &str) -> String {
    format!("the tag {tag}")
}

fn referrer_place(digest: &Digest) -> String {
    format!("the referrer {digest}")
}

/// Whether the registry, and not the thing that was asked for, is at fault.
fn is_of_the_moment(error: &RegistryError) -> bool {
    matches!(
        error,
        RegistryError::Down { .. } | RegistryError::Slow { .. } | RegistryError::Busy { .. }
    )
}

fn speaks_of(raw: &RawManifest, digest: &Digest) -> bool {
    let Document::Manifest(manifest) = &raw.document else {
        return false;
    };
    let subject = manifest.subject.as_ref();
    subject.is_some_and(|subject| subject.digest == *digest)
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
