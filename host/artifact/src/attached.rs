//! Signatures that lie beside an artifact in its registry, as they came, one after the other. What they say is not read here.
//!
//! They lie in two places: cosign's at a tag that is named after the digest, Sigstore's bundles among the referrers. Whoever may write to the
//! registry can put something broken there, and a registry loses things: what cannot be had is passed over with a remark, and hides nothing that can.
//! Nothing is held while the next is looked at, so that rubbish costs time, and no memory.

mod kept;
mod unread;

use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::media_type::{COSIGN_ARTIFACT_FAMILY, COSIGN_SIGNATURE, SIGSTORE_BUNDLE_FAMILY};
use crate::registry::{RawManifest, Registry};
use crate::signature::is_bundle_type;
pub use kept::Attachments;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
pub use unread::Unread;

/// Most blobs of one manifest that are looked at: releases have a handful of signatures.
pub(crate) const BLOBS: usize = 32;
/// Largest blob, in bytes: a Sigstore bundle has about ten kilobytes.
pub(crate) const BLOB_BYTES: u64 = 64 << 10;
/// Largest manifest of a referrer, in bytes: one of a Sigstore bundle has less than two kilobytes. The one at cosign's tag may be as large as any
/// manifest: it holds all signatures that were ever made, certificates with them, and there is only one.
pub(crate) const REFERRER_BYTES: u64 = 64 << 10;
/// Most referrers that are looked at, and most blobs of all of them that are asked for. A release has a handful; the rest is for rubbish, which
/// takes no place from what is good until there is more of it than anybody would leave lying there.
const REFERRERS: usize = 256;
const BLOBS_IN_ALL: usize = 1024;

/// What of an attachment is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Layers that may be signatures.
    Signatures,
    /// All, for whoever takes it along.
    All,
}

/// A manifest beside an artifact, with those of its bytes that could be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The tag that it was found at; absent for a referrer.
    pub tag: Option<String>,
    /// Its digest.
    pub digest: Digest,
    media_type: String,
    bytes: Vec<u8>,
    manifest: Manifest,
    config: Option<Vec<u8>>,
    /// Of its layers, in their order; the first ones, of many. What was not wanted is absent.
    layers: Vec<Option<Vec<u8>>>,
}

/// A manifest beside an artifact, and the bytes that it names, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedManifest {
    /// Whether it lies at cosign's tag of the artifact; else it is a referrer. No other tag is kept: a stranger's would be one of other artifacts.
    pub at_tag: bool,
    /// Its type.
    pub media_type: String,
    /// It itself, as it came.
    pub bytes: Vec<u8>,
    /// What it says.
    pub manifest: Manifest,
    /// Its config.
    pub config: Vec<u8>,
    /// The bytes of its layers, in their order; the first ones, of many.
    pub layers: Vec<Vec<u8>>,
}

/// What could not be had, or was not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    /// What could not be had.
    pub(crate) unread: Vec<Unread>,
    /// How many things were too many.
    pub(crate) left_out: usize,
}

/// Where cosign puts the signatures of a manifest (cosign, `specs/SIGNATURE_SPEC.md`).
pub fn cosign_tag(subject: &Digest) -> String {
    format!("sha256-{}.sig", subject.hex())
}

impl Missed {
    /// The error for whoever needs all of it: the registry has trouble of its own, and another time more may be seen.
    pub(crate) fn trouble(&self) -> Option<&RegistryError> {
        let mut errors = self.unread.iter().map(Unread::error);
        errors.find(|error| is_of_the_moment(error))
    }
}

impl Attachment {
    /// Where it lies, in words.
    pub fn place(&self) -> String {
        match &self.tag {
            Some(tag) => tag_place(tag),
            None => referrer_place(&self.digest),
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
            digest: _,
            media_type,
            bytes,
            manifest,
            config,
            layers,
        } = self;
        Some(AttachedManifest {
            at_tag: tag.is_some(),
            media_type,
            bytes,
            manifest,
            config: config?,
            layers: layers.into_iter().collect::<Option<_>>()?,
        })
    }
}

impl Registry {
    /// Shows all that is attached to a manifest and may be a signature, until somebody has enough of it.
    pub(crate) async fn look(
        &self,
        subject: &Digest,
        parts: Parts,
        mut each: impl FnMut(Attachment) -> ControlFlow<()>,
    ) -> Missed {
        let mut looked = Looked::default();
        if let Some(attachment) = self.at_tag(subject, parts, &mut looked).await
            && each(attachment).is_break()
        {
            return looked.missed;
        }
        let referrers = match looked.is_at_an_end {
            true => Vec::new(),
            false => self.signing_referrers(subject, &mut looked).await,
        };
        for referrer in referrers {
            if looked.is_at_an_end {
                break;
            }
            if looked.blobs >= BLOBS_IN_ALL {
                looked.missed.left_out += 1;
                continue;
            }
            let attachment = self.referrer(&referrer, subject, parts, &mut looked).await;
            if let Some(attachment) = attachment
                && each(attachment).is_break()
            {
                break;
            }
        }
        looked.missed
    }

    async fn at_tag(
        &self,
        subject: &Digest,
        parts: Parts,
        looked: &mut Looked,
    ) -> Option<Attachment> {
        let tag = cosign_tag(subject);
        match self.find_manifest(&tag).await {
            Ok(None) => None,
            Ok(Some(raw)) => self.attachment(raw, Some(tag), parts, looked).await,
            Err(error) => {
                looked.pass_over(tag_place(&tag), error);
                None
            }
        }
    }

    /// The digests of what is called a signature, each once. The rest of the list is not kept: it may be large.
    async fn signing_referrers(&self, subject: &Digest, looked: &mut Looked) -> Vec<Digest> {
        let list = match self.referrers(subject).await {
            Ok(list) => list,
            Err(error) => {
                looked.pass_over("the list of what refers to it".to_owned(), error);
                return Vec::new();
            }
        };
        let mut seen = BTreeSet::from_iter(looked.at_tag.clone());
        let mut referrers: Vec<_> = list
            .into_iter()
            .filter(may_sign)
            .map(|it| it.digest)
            .filter(|it| seen.insert(it.clone()))
            .collect();
        looked.missed.left_out += referrers.len().saturating_sub(REFERRERS);
        referrers.truncate(REFERRERS);
        referrers
    }

    async fn referrer(
        &self,
        digest: &Digest,
        subject: &Digest,
        parts: Parts,
        looked: &mut Looked,
    ) -> Option<Attachment> {
        let found = self.manifest_of_at_most(digest.as_str(), REFERRER_BYTES);
        match found.await {
            // The list is the registry's word, what the manifest speaks of is its own.
            Ok(raw) if speaks_of(&raw, subject) => self.attachment(raw, None, parts, looked).await,
            Ok(_) => None,
            Err(error) => {
                looked.pass_over(referrer_place(digest), error);
                None
            }
        }
    }

    async fn attachment(
        &self,
        raw: RawManifest,
        tag: Option<String>,
        parts: Parts,
        looked: &mut Looked,
    ) -> Option<Attachment> {
        let RawManifest {
            digest,
            media_type,
            bytes,
            document,
        } = raw;
        let Document::Manifest(manifest) = document else {
            return None;
        };
        if tag.is_some() {
            looked.at_tag = Some(digest.clone());
        }
        let mut attachment = Attachment {
            tag,
            digest,
            media_type,
            bytes,
            manifest: *manifest,
            config: None,
            layers: Vec::new(),
        };
        if parts == Parts::All {
            let config = &attachment.manifest.config;
            let name = "the config of a signature";
            attachment.config = self.part(&attachment, config, name, looked).await;
        }
        let mut asked = 0;
        for layer in &attachment.manifest.layers {
            if asked >= BLOBS {
                break;
            }
            let is_wanted = parts == Parts::All || is_signature(&layer.media_type);
            let bytes = match is_wanted {
                true => self.part(&attachment, layer, "a signature", looked).await,
                false => None,
            };
            asked += usize::from(is_wanted);
            attachment.layers.push(bytes);
        }
        Some(attachment)
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
        if looked.blobs >= BLOBS_IN_ALL {
            looked.missed.left_out += 1;
            return None;
        }
        looked.blobs += 1;
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
    missed: Missed,
    /// The manifest at cosign's tag: it may be listed as a referrer too.
    at_tag: Option<Digest>,
    /// How many blobs were asked for.
    blobs: usize,
    /// The registry does not answer any more, or the time is over: asking on would be in vain.
    is_at_an_end: bool,
}

impl Looked {
    fn pass_over(&mut self, place: String, error: RegistryError) {
        self.is_at_an_end |= matches!(
            error,
            RegistryError::Down { .. } | RegistryError::Slow { .. }
        );
        self.missed.unread.push(Unread::new(place, error));
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

/// Whether a layer of this type may be one.
fn is_signature(media_type: &str) -> bool {
    media_type == COSIGN_SIGNATURE || is_bundle_type(media_type)
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
    fn signatures_are_told_apart_from_other_referrers() {
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
