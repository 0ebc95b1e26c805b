//! Signatures beside an artifact in its registry, read one after the other. Their content is not interpreted here.
//!
//! cosign's signatures are at a tag named after the digest, Sigstore's bundles among the referrers. Anyone who may write to the registry can put
//! broken data there, and a registry loses data: what cannot be read is skipped with a remark, and does not hide readable signatures. Nothing is kept
//! in memory while the next is read, so broken data costs time and no memory.

use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::media_type::{
    COSIGN_ARTIFACT_FAMILY, COSIGN_SIGNATURE, EMPTY, SIGSTORE_BUNDLE_FAMILY, is_manifest,
};
use crate::registry::{RawManifest, Registry};
use crate::signature::is_bundle_type;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Most blobs of one manifest that are read: releases have a handful of signatures.
pub(crate) const BLOBS: usize = 32;
/// Largest blob, in bytes: a Sigstore bundle has about ten kilobytes.
pub(crate) const BLOB_BYTES: u64 = 64 << 10;
/// Largest manifest of a referrer, in bytes: one of a Sigstore bundle has less than two kilobytes. The manifest at cosign's tag may be as large as
/// any manifest: it holds all signatures that were ever made, with their certificates, and there is only one.
pub(crate) const REFERRER_BYTES: u64 = 64 << 10;
/// Most referrers that are read, and most blobs that are requested for all of them. A release has a handful; the rest is spare for broken data, which
/// does not displace valid signatures until there is more of it than anyone would leave there.
const REFERRERS: usize = 256;
const BLOBS_IN_ALL: usize = 1024;

/// How much of the attached data is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Layers that may be signatures, until the required ones are found.
    UntilSigned,
    /// Everything: to list it for a user, or to copy it. A lost part is worth a remark, though no signature needs it.
    All,
}

/// A manifest beside an artifact, with those of its parts that were fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The tag that it was found at; absent for a referrer.
    pub(crate) tag: Option<String>,
    pub(crate) raw: RawManifest<Manifest>,
    config: Option<Vec<u8>>,
    /// Contents of its layers, in order; only the first ones if there are many.
    layers: Vec<Option<Vec<u8>>>,
}

/// A manifest beside an artifact, with all of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedManifest {
    /// Whether the manifest is at cosign's tag of the artifact; otherwise it is a referrer. No other tag is kept: it could belong to another
    /// artifact.
    pub at_tag: bool,
    /// The manifest itself.
    pub raw: RawManifest<Manifest>,
    /// Its config.
    pub config: Vec<u8>,
    /// Contents of its layers, in order; only the first ones if there are many.
    pub layers: Vec<Vec<u8>>,
}

/// What could not be read, or was skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missed {
    /// What could not be read, and why.
    pub unread: Vec<String>,
    /// How many items exceeded the bounds.
    pub left_out: usize,
    /// The error to return if everything is needed: the registry has a fault of its own, and a later attempt may find more.
    pub trouble: Option<RegistryError>,
}

/// Where cosign puts the signatures of a manifest (cosign, `specs/SIGNATURE_SPEC.md`).
pub fn cosign_tag(subject: &Digest) -> String {
    format!("sha256-{}.sig", subject.hex())
}

impl Attachment {
    /// The location of the manifest, for messages.
    pub(crate) fn place(&self) -> String {
        match &self.tag {
            Some(tag) => tag_place(tag),
            None => referrer_place(&self.raw.digest),
        }
    }

    /// Each layer that was read, with its bytes.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = (&Descriptor, &[u8])> {
        let both = self.raw.document.layers.iter().zip(&self.layers);
        both.filter_map(|(layer, bytes)| Some((layer, bytes.as_deref()?)))
    }

    /// The manifest with all of its parts, if they were fetched.
    pub fn whole(self) -> Option<AttachedManifest> {
        Some(AttachedManifest {
            at_tag: self.tag.is_some(),
            raw: self.raw,
            config: self.config?,
            layers: self.layers.into_iter().collect::<Option<_>>()?,
        })
    }
}

impl Registry {
    /// Passes each manifest that is attached and may be a signature to `each`, until `each` breaks.
    pub(crate) async fn search(
        &self,
        subject: &Digest,
        extent: Extent,
        mut each: impl FnMut(Attachment) -> ControlFlow<()>,
    ) -> Missed {
        let mut search = Search {
            registry: self,
            subject,
            extent,
            seen: BTreeSet::new(),
            blobs: 0,
            is_over: false,
            missed: Missed::default(),
        };
        search.at_tag(&mut each).await;
        if !search.is_over {
            search.referrers(&mut each).await;
        }
        search.missed
    }
}

/// The state of a search.
struct Search<'a> {
    registry: &'a Registry,
    subject: &'a Digest,
    extent: Extent,
    /// Manifests that were read: the one at cosign's tag may be listed as a referrer too.
    seen: BTreeSet<Digest>,
    /// How many blobs were requested.
    blobs: usize,
    /// Enough was found, the registry does not answer any more, or the time limit is reached.
    is_over: bool,
    missed: Missed,
}

impl Search<'_> {
    async fn at_tag(&mut self, each: &mut impl FnMut(Attachment) -> ControlFlow<()>) {
        let tag = cosign_tag(self.subject);
        match self.registry.find_manifest(&tag).await {
            Ok(None) => {}
            Ok(Some(raw)) => self.show(raw, Some(tag), each).await,
            Err(error) => self.pass_over(&tag_place(&tag), error),
        }
    }

    async fn referrers(&mut self, each: &mut impl FnMut(Attachment) -> ControlFlow<()>) {
        let list = match self.registry.referrers(self.subject).await {
            Ok(list) => list,
            Err(error) => return self.pass_over("the list of what refers to it", error),
        };
        // The rest of the list is not kept: it may be large.
        let mut referrers: Vec<_> = list
            .into_iter()
            .filter_map(|it| Some((declared(&it)?, it.digest)))
            .filter(|(_, digest)| self.seen.insert(digest.clone()))
            .collect();
        referrers.sort_by_key(|(declared, _)| *declared);
        self.missed.left_out += referrers.len().saturating_sub(REFERRERS);
        referrers.truncate(REFERRERS);
        for (declared, digest) in referrers {
            if self.is_over {
                return;
            }
            if self.blobs >= BLOBS_IN_ALL {
                self.missed.left_out += 1;
                continue;
            }
            let found = self
                .registry
                .manifest_of_at_most(digest.as_str(), REFERRER_BYTES);
            match found.await {
                Ok(raw) if declared == Declared::Unknown && !signs_by_itself(&raw) => {}
                Ok(raw) => self.show(raw, None, each).await,
                Err(error) => self.pass_over(&referrer_place(&digest), error),
            }
        }
    }

    /// Passes a manifest with its parts on, if it holds signatures of the subject.
    async fn show(
        &mut self,
        raw: RawManifest,
        tag: Option<String>,
        each: &mut impl FnMut(Attachment) -> ControlFlow<()>,
    ) {
        let Some(raw) = raw.into_manifest() else {
            return;
        };
        self.seen.insert(raw.digest.clone());
        // The list is a claim of the registry; the subject is stated in the manifest itself.
        let subject = raw.document.subject.as_ref();
        if tag.is_none() && subject.is_none_or(|it| it.digest != *self.subject) {
            return;
        }
        let mut attachment = Attachment {
            tag,
            raw,
            config: None,
            layers: Vec::new(),
        };
        let place = attachment.place();
        let manifest = &attachment.raw.document;
        if self.extent == Extent::All {
            let name = "the config of a signature";
            attachment.config = self.blob(&place, &manifest.config, name).await;
        }
        let mut requested = 0;
        for layer in &manifest.layers {
            if requested >= BLOBS {
                break;
            }
            let is_needed = self.extent == Extent::All || is_signature(&layer.media_type);
            requested += usize::from(is_needed);
            attachment.layers.push(match is_needed {
                true => self.blob(&place, layer, "a signature").await,
                false => None,
            });
        }
        self.is_over |= each(attachment).is_break();
    }

    /// A blob of an attachment, if it can be fetched.
    async fn blob(&mut self, place: &str, blob: &Descriptor, name: &str) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        if self.blobs >= BLOBS_IN_ALL {
            self.missed.left_out += 1;
            return None;
        }
        self.blobs += 1;
        match self.registry.blob(blob, name, BLOB_BYTES).await {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.pass_over(&format!("{place}: its blob {}", blob.digest), error);
                None
            }
        }
    }

    fn pass_over(&mut self, place: &str, error: RegistryError) {
        self.missed
            .unread
            .push(format!("{place} {}", error.in_short()));
        let is_last = matches!(
            error,
            RegistryError::Down { .. } | RegistryError::Slow { .. }
        );
        self.is_over |= is_last;
        // The registry is at fault, and not the requested blob.
        if is_last || matches!(error, RegistryError::Busy { .. }) {
            self.missed.trouble.get_or_insert(error);
        }
    }
}

fn tag_place(tag: &str) -> String {
    format!("the tag {tag}")
}

fn referrer_place(digest: &Digest) -> String {
    format!("the referrer {digest}")
}

/// Whether a layer of this type may be a signature.
fn is_signature(media_type: &str) -> bool {
    media_type == COSIGN_SIGNATURE || is_bundle_type(media_type)
}

/// What a list says about a referrer. Signatures are read first, so that others do not displace them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Declared {
    /// It is a signature.
    Signature,
    /// Nothing: its manifest says what it is.
    Unknown,
}

/// What a list says about a referrer that may be a signature; none: it is something else, such as an SBOM. A client that maintains the list at a tag
/// should name the artifact type of the manifest, but cosign 2.6 names the media type of its config, which is empty for a Sigstore bundle.
fn declared(referrer: &Descriptor) -> Option<Declared> {
    match referrer.artifact_type.as_deref() {
        None => Some(Declared::Unknown),
        Some(kind) if is_kind_of_signature(kind) => Some(Declared::Signature),
        Some(kind) if kind == EMPTY || is_manifest(kind) => Some(Declared::Unknown),
        Some(_) => None,
    }
}

/// Whether a manifest itself says that it is a signature.
fn signs_by_itself(raw: &RawManifest) -> bool {
    match &raw.document {
        Document::Manifest(manifest) => is_kind_of_signature(manifest.kind()),
        Document::Index(_) => false,
    }
}

fn is_kind_of_signature(kind: &str) -> bool {
    kind.starts_with(SIGSTORE_BUNDLE_FAMILY) || kind.starts_with(COSIGN_ARTIFACT_FAMILY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media_type::OCI_MANIFEST;

    #[test]
    fn signatures_are_distinguished_from_other_referrers() {
        for (kind, expected) in [
            (
                Some("application/vnd.dev.sigstore.bundle.v0.3+json"),
                Some(Declared::Signature),
            ),
            (
                Some("application/vnd.dev.cosign.artifact.sig.v1+json"),
                Some(Declared::Signature),
            ),
            (Some(EMPTY), Some(Declared::Unknown)),
            (Some(OCI_MANIFEST), Some(Declared::Unknown)),
            (None, Some(Declared::Unknown)),
            (Some("application/spdx+json"), None),
        ] {
            let mut referrer = Descriptor::of(OCI_MANIFEST, b"");
            referrer.artifact_type = kind.map(str::to_owned);
            assert_eq!(declared(&referrer), expected, "{kind:?}");
        }
    }
}
