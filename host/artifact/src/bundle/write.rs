//! Writes a bundle. Equal bundles are written as equal bytes.

use super::{Bundle, BundleError};
use crate::attached::cosign_tag;
use crate::digest::Digest;
use crate::manifest::{Descriptor, Index, Manifest};
use crate::media_type::plain;
use crate::registry::RawManifest;
use std::collections::BTreeSet;
use std::io::Write;
use tar::{Builder, EntryType, Header};

/// The file that marks the directory as an image layout, and its only content.
pub(super) const LAYOUT_FILE: &str = "oci-layout";
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// The index of the layout.
pub(super) const INDEX_FILE: &str = "index.json";
/// The directory of the blobs, named by digest.
pub(super) const BLOBS: &str = "blobs/sha256/";
/// The tag of an entry of the index.
pub(super) const NAME: &str = "org.opencontainers.image.ref.name";

/// Readable by every user.
const MODE: u32 = 0o644;

impl Bundle {
    /// Writes the bundle. `tag` is the artifact's name in the index.
    pub fn write(&self, tag: Option<&str>, to: impl Write) -> Result<(), BundleError> {
        let mut archive = Archive {
            tar: Builder::new(to),
            written: BTreeSet::new(),
        };
        archive.file(LAYOUT_FILE, LAYOUT)?;
        archive.file(INDEX_FILE, &self.list(tag).to_bytes())?;
        archive.blob(&self.raw.bytes)?;
        archive.blob(&self.config)?;
        archive.blob(&self.component)?;
        for attached in &self.attached {
            archive.blob(&attached.raw.bytes)?;
            archive.blob(&attached.config)?;
            for layer in &attached.layers {
                archive.blob(layer)?;
            }
        }
        archive.tar.into_inner()?.flush()?;
        Ok(())
    }

    fn list(&self, tag: Option<&str>) -> Index {
        let entry = |raw: &RawManifest<Manifest>, tag: Option<String>| {
            let mut entry = Descriptor::of(plain(&raw.media_type), &raw.bytes);
            entry.artifact_type.clone_from(&raw.document.artifact_type);
            let tag = tag.map(|tag| (NAME.to_owned(), tag));
            entry.annotations.extend(tag);
            entry
        };
        let mut entries = vec![entry(&self.raw, tag.map(str::to_owned))];
        for attached in &self.attached {
            let tag = attached.at_tag.then(|| cosign_tag(&self.raw.digest));
            entries.push(entry(&attached.raw, tag));
        }
        Index::new(entries)
    }
}

struct Archive<W: Write> {
    tar: Builder<W>,
    written: BTreeSet<Digest>,
}

impl<W: Write> Archive<W> {
    /// Writes a blob once: signatures share their config.
    fn blob(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        let digest = Digest::of(bytes);
        let name = format!("{BLOBS}{}", digest.hex());
        if self.written.insert(digest) {
            self.file(&name, bytes)?;
        }
        Ok(())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(MODE);
        header.set_size(bytes.len() as u64);
        Ok(self.tar.append_data(&mut header, name, bytes)?)
    }
}
