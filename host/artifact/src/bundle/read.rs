//! From the files of a layout to one artifact. Apart because it decides which of several manifests is the artifact, and which ones lay beside it.

use super::tar::{Files, files};
use super::write::{INDEX_FILE, LAYOUT_FILE, NAME};
use super::{Bundle, BundleError};
use crate::attached::{AttachedManifest, BLOBS, cosign_tag};
use crate::digest::Digest;
use crate::manifest::{Descriptor, Document, Manifest};
use crate::registry::RawManifest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;

/// Layouts of version 1 are read.
const VERSION: &str = "1.";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layout {
    image_layout_version: String,
}

/// A manifest of the list.
struct Listed {
    digest: Digest,
    media_type: String,
    bytes: Vec<u8>,
    manifest: Manifest,
    tag: Option<String>,
}

impl Bundle {
    /// Reads one. Every byte of it has been checked against its digest then.
    pub fn read(from: impl Read) -> Result<Self, BundleError> {
        let Files {
            layout,
            index,
            blobs,
        } = files(from)?;
        let missing = |file: &str| BundleError::Missing(file.to_owned());
        check_layout(&layout.ok_or_else(|| missing(LAYOUT_FILE))?)?;
        let index = index.ok_or_else(|| missing(INDEX_FILE))?;
        let blobs = Blobs(blobs);
        let (mut artifacts, others): (Vec<_>, Vec<_>) = listed(&index, &blobs)?
            .into_iter()
            .partition(|it| it.manifest.component().is_ok());
        let count = artifacts.len();
        let (Some(artifact), 1) = (artifacts.pop(), count) else {
            let first = others.first().map(|it| it.manifest.component());
            let reason = match first {
                Some(Err(reason)) if count == 0 => reason,
                _ => format!("it has {count} of them"),
            };
            return Err(BundleError::NotOne(reason));
        };
        let Listed {
            digest,
            media_type,
            bytes,
            manifest,
            tag: _,
        } = artifact;
        let raw = RawManifest {
            document: Document::Manifest(Box::new(manifest.clone())),
            digest,
            media_type,
            bytes,
        };
        let layer = manifest.component().map_err(BundleError::NotOne)?;
        let component = blobs.get(layer)?;
        let config = blobs.get(&manifest.config)?;
        let attached = others
            .into_iter()
            .filter(|it| it.lies_beside(&raw.digest))
            .map(|it| it.attached(&raw.digest, &blobs))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            component,
            config,
            attached,
            manifest,
            raw,
        })
    }
}

/// By digest; every one is what its name says.
struct Blobs(BTreeMap<Digest, Vec<u8>>);

impl Blobs {
    fn get(&self, wanted: &Descriptor) -> Result<Vec<u8>, BundleError> {
        let missing = || BundleError::Missing(wanted.digest.to_string());
        let bytes = self.0.get(&wanted.digest).ok_or_else(missing)?;
        if bytes.len() as u64 == wanted.size {
            return Ok(bytes.clone());
        }
        Err(BundleError::Entry {
            entry: wanted.digest.to_string(),
            reason: format!(
                "has {} bytes, not the {} that are said",
                bytes.len(),
                wanted.size
            ),
        })
    }
}

impl Listed {
    fn lies_beside(&self, artifact: &Digest) -> bool {
        let subject = self.manifest.subject.as_ref();
        self.is_at_tag(artifact) || subject.is_some_and(|subject| subject.digest == *artifact)
    }

    fn is_at_tag(&self, artifact: &Digest) -> bool {
        self.tag.as_deref() == Some(cosign_tag(artifact).as_str())
    }

    fn attached(self, artifact: &Digest, blobs: &Blobs) -> Result<AttachedManifest, BundleError> {
        let at_tag = self.is_at_tag(artifact);
        let Self {
            media_type,
            bytes,
            manifest,
            ..
        } = self;
        let layers = manifest
            .layers
            .iter()
            .take(BLOBS)
            .map(|layer| blobs.get(layer));
        Ok(AttachedManifest {
            layers: layers.collect::<Result<_, _>>()?,
            config: blobs.get(&manifest.config)?,
            at_tag,
            media_type,
            bytes,
            manifest,
        })
    }
}

fn check_layout(bytes: &[u8]) -> Result<(), BundleError> {
    let wrong = |reason: String| BundleError::Entry {
        entry: LAYOUT_FILE.to_owned(),
        reason,
    };
    let layout: Layout = serde_json::from_slice(bytes)
        .map_err(|error| wrong(format!("is not as it should be: {error}")))?;
    match layout.image_layout_version {
        version if version.starts_with(VERSION) => Ok(()),
        other => Err(wrong(format!("is of the version `{other}`, and 1 is read"))),
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
    let read = |entry: Descriptor| {
        let bytes = blobs.get(&entry)?;
        let document = Document::parse(&bytes, Some(&entry.media_type));
        let document = document.map_err(|reason| BundleError::Entry {
            entry: entry.digest.to_string(),
            reason,
        })?;
        let Document::Manifest(manifest) = document else {
            return Err(BundleError::NotOne(
                "it holds a list of artifacts; save one of them by its digest".to_owned(),
            ));
        };
        Ok(Listed {
            digest: entry.digest,
            media_type: entry.media_type,
            bytes,
            manifest: *manifest,
            tag: entry.annotations.get(NAME).cloned(),
        })
    };
    index.manifests.into_iter().map(read).collect()
}
