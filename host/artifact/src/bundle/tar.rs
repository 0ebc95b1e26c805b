//! The files of a tar, by name and bounded. Apart because it is the only place that walks a stranger's archive: nothing of it is ever put into a
//! file system, so no path leads anywhere, and what no bundle has is refused by name.

use super::write::{BLOBS, INDEX_FILE, LAYOUT_FILE};
use super::{BundleError, SMALL_BYTES};
use crate::COMPONENT_BYTES;
use crate::digest::Digest;
use std::collections::BTreeMap;
use std::io::{self, Read};
use tar::{Archive, Entry, EntryType};

/// Most entries: a component and its signatures have some dozens.
const ENTRIES: u64 = 512;
/// Most bytes of everything together: the largest component, and room for what is beside.
const TOTAL_BYTES: u64 = COMPONENT_BYTES + (16 << 20);
/// Characters of a name that are shown.
const SHOWN_CHARACTERS: usize = 120;
/// Files that other tools put beside a layout, and that nobody needs: docker's own list (`docker save`).
const PASSED_OVER: [&str; 2] = ["manifest.json", "repositories"];

/// What a layout is made of.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) layout: Option<Vec<u8>>,
    pub(super) index: Option<Vec<u8>>,
    /// Each is what its name says.
    pub(super) blobs: BTreeMap<Digest, Vec<u8>>,
}

enum Place {
    Layout,
    Index,
    Blob(Digest),
    Directory,
    PassedOver,
}

/// All of them.
pub(super) fn files(from: impl Read) -> Result<Files, BundleError> {
    let mut files = Files::default();
    // Headers and padding count: names may be long, and there may be many.
    let mut archive = Archive::new(from.take(TOTAL_BYTES));
    let mut count = 0;
    for entry in archive.entries()? {
        let mut entry = entry?;
        count += 1;
        if count > ENTRIES {
            return Err(BundleError::TooMuch {
                most: ENTRIES,
                what: "entries",
            });
        }
        let name = name(&entry);
        match place(&name, entry.header().entry_type()).map_err(|reason| wrong(&name, reason))? {
            Place::Directory | Place::PassedOver => {}
            Place::Layout => once(&mut files.layout, &mut entry, &name)?,
            Place::Index => once(&mut files.index, &mut entry, &name)?,
            Place::Blob(digest) => {
                let bytes = content(&mut entry, &name, COMPONENT_BYTES)?;
                if Digest::of(&bytes) != digest {
                    return Err(wrong(&name, "has bytes of another digest"));
                }
                if files.blobs.insert(digest, bytes).is_some() {
                    return Err(wrong(&name, "is there twice"));
                }
            }
        }
    }
    Ok(files)
}

fn once(
    place: &mut Option<Vec<u8>>,
    entry: &mut Entry<'_, impl Read>,
    name: &str,
) -> Result<(), BundleError> {
    let bytes = content(entry, name, SMALL_BYTES)?;
    match place.replace(bytes) {
        None => Ok(()),
        Some(_) => Err(wrong(name, "is there twice")),
    }
}

fn content(
    entry: &mut Entry<'_, impl Read>,
    name: &str,
    most: u64,
) -> Result<Vec<u8>, BundleError> {
    let size = entry.size();
    if size > most {
        let reason = format!("has {size} bytes, and such a thing has {most} at most");
        return Err(wrong(name, reason));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size {
        return Ok(bytes);
    }
    let early = io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early");
    Err(early.into())
}

/// What an entry is for, by the name and kind that it has.
fn place(name: &str, kind: EntryType) -> Result<Place, String> {
    let plain = name.strip_prefix("./").unwrap_or(name);
    if kind.is_dir() {
        return match plain.trim_end_matches('/') {
            "" | "." | "blobs" | "blobs/sha256" => Ok(Place::Directory),
            _ => Err("is a directory that no layout has".to_owned()),
        };
    }
    if !kind.is_file() {
        return Err("is neither a file nor a directory".to_owned());
    }
    match plain {
        LAYOUT_FILE => Ok(Place::Layout),
        INDEX_FILE => Ok(Place::Index),
        other if PASSED_OVER.contains(&other) => Ok(Place::PassedOver),
        other => {
            let hex = other.strip_prefix(BLOBS);
            let digest = hex.and_then(|hex| Digest::parse(&format!("sha256:{hex}")).ok());
            digest
                .map(Place::Blob)
                .ok_or_else(|| "is a file that no layout has".to_owned())
        }
    }
}

fn name(entry: &Entry<'_, impl Read>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).into_owned()
}

fn wrong(name: &str, reason: impl Into<String>) -> BundleError {
    let shown = name.chars().take(SHOWN_CHARACTERS);
    BundleError::Entry {
        entry: shown.flat_map(char::escape_debug).collect(),
        reason: reason.into(),
    }
}
