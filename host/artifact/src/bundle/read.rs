//! Reads one artifact from the files of an image layout.

use super::tar::files;
use super::write::{INDEX_FILE, LAYOUT_FILE, NAME};
use super::{Bundle, BundleError, CONFIG_BYTES};
use crate::COMPONENT_BYTES;
use crate::attached::{AttachedManifest, BLOB_BYTES, BLOBS, cosign_tag};
use crate::digest::Digest;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::registry::{MANIFEST_BYTES, RawManifest};
use crate::text::{QUOTED_CHARACTERS, REASON_CHARACTERS, shorten};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Layouts of version 1 are read.
const VERSION: &str = "1.";
/// Most manifests in an index: `save` writes some thirty.
const LISTED: usize = 64;
/// Most bytes of all manifests together. Parsed JSON takes some twenty times its size in memory.
const LISTED_BYTES: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layout {
    image_layout_version: String,
}

/// A manifest of the index.
struct Listed {
    raw: RawManifest<Manifest>,
    tag: Option<String>,
}

impl Bundle {
    /// Reads a bundle. Every blob of it has been checked against its digest then.
    pub fn read(from: impl Read) -> Result<Self, BundleError> {
        let files = files(from)?;
        let missing = |file: &str| BundleError::Missing(file.to_owned());
        check_layout(&files.layout.ok_or_else(|| missing(LAYOUT_FILE))?)?;
        let index = files.index.ok_or_else(|| missing(INDEX_FILE))?;
        let blobs = Blobs(files.blobs);
        let (mut artifacts, others): (Vec<_>, Vec<_>) = listed(&index, &blobs)?
            .into_iter()
            .partition(|it| it.raw.document.component().is_ok());
        let count = artifacts.len();
        let (Some(artifact), 1) = (artifacts.pop(), count) else {
            let first = others.first().map(|it| it.raw.document.component());
            let reason = match first {
                Some(Err(reason)) if count == 0 => reason,
                _ => format!("it has {count} of them"),
            };
            return Err(BundleError::NotOne(reason));
        };
        let raw = artifact.raw;
        let layer = raw.document.component().map_err(BundleError::NotOne)?;
        let component = blobs.get(layer, COMPONENT_BYTES)?;
        let config = blobs.get(&raw.document.config, CONFIG_BYTES)?;
        let attached = others
            .into_iter()
            .filter(|it| it.lies_beside(&raw.digest))
            .map(|it| it.attached(&raw.digest, &blobs))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            component,
            config,
            attached,
            raw,
        })
    }
}

/// Blobs by digest; the bytes of each match its digest.
struct Blobs(BTreeMap<Digest, Vec<u8>>);

impl Blobs {
    /// The bytes of a blob of at most `most` bytes: an index can name one blob many times, and each is a copy.
    fn get(&self, descriptor: &Descriptor, most: u64) -> Result<Vec<u8>, BundleError> {
        let missing = || BundleError::Missing(descriptor.digest.to_string());
        let bytes = self.0.get(&descriptor.digest).ok_or_else(missing)?;
        let (has, expected) = (bytes.len() as u64, descriptor.size);
        let reason = if has > most {
            format!("has {has} bytes, and such a thing has {most} at most")
        } else if has != expected {
            format!("has {has} bytes, not the {expected} that are said")
        } else {
            return Ok(bytes.clone());
        };
        Err(wrong(&descriptor.digest, reason))
    }
}

impl Listed {
    fn lies_beside(&self, artifact: &Digest) -> bool {
        let subject = self.raw.document.subject.as_ref();
        self.is_at_tag(artifact) || subject.is_some_and(|subject| subject.digest == *artifact)
    }

    fn is_at_tag(&self, artifact: &Digest) -> bool {
        self.tag.as_deref() == Some(cosign_tag(artifact).as_str())
    }

    fn attached(self, artifact: &Digest, blobs: &Blobs) -> Result<AttachedManifest, BundleError> {
        let manifest = &self.raw.document;
        let layers = manifest.layers.iter().take(BLOBS);
        Ok(AttachedManifest {
            at_tag: self.is_at_tag(artifact),
            layers: layers
                .map(|layer| blobs.get(layer, BLOB_BYTES))
                .collect::<Result<_, _>>()?,
            config: blobs.get(&manifest.config, BLOB_BYTES)?,
            raw: self.raw,
        })
    }
}

fn wrong(blob: &Digest, reason: String) -> BundleError {
    BundleError::Entry {
        entry: blob.to_string(),
        reason,
    }
}

fn check_layout(bytes: &[u8]) -> Result<(), BundleError> {
    let wrong = |reason: String| BundleError::Entry {
        entry: LAYOUT_FILE.to_owned(),
        reason: shorten(&reason, REASON_CHARACTERS),
    };
    let layout: Layout = serde_json::from_slice(bytes)
        .map_err(|error| wrong(format!("is not as it should be: {error}")))?;
    match layout.image_layout_version {
        version if version.starts_with(VERSION) => Ok(()),
        other => Err(wrong(format!(
            "is of the version `{}`, and 1 is read",
            shorten(&other, QUOTED_CHARACTERS)
        ))),
    }
}

fn listed(index: &[u8], blobs: &Blobs) -> Result<Vec<Listed>, BundleError> {
    let parsed = Document::parse(index, None).map_err(|reason| BundleError::Entry {
        entry: INDEX_FILE.to_owned(),
        reason: format!("is not as it should be: {reason}"),
    })?;
    let Document::Index(index) = parsed else {
        return Err(BundleError::NotOne(format!(
            "its {INDEX_FILE} is a manifest"
        )));
    };
    if index.manifests.len() > LISTED {
        return Err(BundleError::TooMuch(LISTED as u64, "manifests"));
    }
    let mut seen = BTreeSet::new();
    let mut total = 0;
    let read = |entry: Descriptor| {
        if !seen.insert(entry.digest.clone()) {
            return Err(wrong(&entry.digest, "is listed twice".to_owned()));
        }
        let bytes = blobs.get(&entry, MANIFEST_BYTES)?;
        total += bytes.len();
        if total > LISTED_BYTES {
            let what = "bytes of manifests";
            return Err(BundleError::TooMuch(LISTED_BYTES as u64, what));
        }
        let document = Document::parse(&bytes, Some(&entry.media_type))
            .map_err(|reason| wrong(&entry.digest, reason))?;
        let Document::Manifest(manifest) = document else {
            return Err(BundleError::NotOne(
                "it holds a list of artifacts; save one of them by its digest".to_owned(),
            ));
        };
        Ok(Listed {
            raw: RawManifest {
                digest: entry.digest,
                media_type: entry.media_type,
                bytes,
                document: *manifest,
            },
            tag: entry.annotations.get(NAME).cloned(),
        })
    };
    index.manifests.into_iter().map(read).collect()
}
