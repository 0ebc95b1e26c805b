//! The files of a tar, by name and bounded. Nothing is written to a file system, so no path can escape; entries that do not belong in a bundle are
//! rejected by name.

use super::BundleError;
use super::write::{BLOBS, INDEX_FILE, LAYOUT_FILE};
use crate::COMPONENT_BYTES;
use crate::digest::Digest;
use crate::registry::MANIFEST_BYTES;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Cursor, Read};
use tar::{Archive, Entry, EntryType};

/// Most entries: a component and its signatures have some dozens.
const ENTRIES: u64 = 512;
/// Most bytes of everything together: the largest component, and space for its attachments.
const TOTAL_BYTES: u64 = COMPONENT_BYTES + (16 << 20);
/// Characters of a name that are shown.
const SHOWN_CHARACTERS: usize = 120;
/// Files that other tools put beside a layout, and that are ignored: docker's own list (`docker save`).
const PASSED_OVER: [&str; 2] = ["manifest.json", "repositories"];

/// Magic bytes of other files that users mistake for bundles, and what to do with such a file.
const OTHER_FILES: [(&[u8], &str); 4] = [
    (
        b"\0asm",
        "it is WebAssembly itself, and needs no loading; `wasmount save` makes a bundle of it",
    ),
    (
        b"\x1f\x8b",
        "it is compressed with gzip; load what `gunzip` makes of it",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "it is compressed with zstd; load what `unzstd` makes of it",
    ),
    (
        b"\xfd7zXZ",
        "it is compressed with xz; load what `unxz` makes of it",
    ),
];
/// Length of the longest of those magic bytes.
const BEGINNING_BYTES: u64 = 8;

/// The files of an image layout.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) layout: Option<Vec<u8>>,
    pub(super) index: Option<Vec<u8>>,
    /// Blobs by digest; the bytes of each match its digest.
    pub(super) blobs: BTreeMap<Digest, Vec<u8>>,
}

enum Place {
    Layout,
    Index,
    Blob(Digest),
    Ignored,
}

/// Reads all files.
pub(super) fn files(from: impl Read) -> Result<Files, BundleError> {
    let mut files = Files::default();
    // Headers and padding count: names may be long, and there may be many.
    let mut archive = Archive::new(tar(from)?.take(TOTAL_BYTES));
    let mut count = 0;
    for entry in archive.entries()? {
        let mut entry = entry.map_err(|error| torn(error, count))?;
        count += 1;
        if count > ENTRIES {
            return Err(BundleError::TooMuch(ENTRIES, "entries"));
        }
        let name = name(&entry);
        match place(&name, entry.header().entry_type()).map_err(|reason| wrong(&name, reason))? {
            Place::Ignored => {}
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

/// The same bytes, unless they begin with the magic bytes of a file that is not a tar.
fn tar(mut from: impl Read) -> Result<impl Read, BundleError> {
    let mut beginning = Vec::new();
    from.by_ref()
        .take(BEGINNING_BYTES)
        .read_to_end(&mut beginning)?;
    let mut others = OTHER_FILES.iter();
    match others.find(|(first, _)| beginning.starts_with(first)) {
        Some((_, instead)) => Err(BundleError::NotATar(instead)),
        None => Ok(Cursor::new(beginning).chain(from)),
    }
}

/// The error for what the library could not read after `count` entries. The library's own messages quote the bytes; messages of the system are kept.
fn torn(error: io::Error, count: u64) -> BundleError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(one) = cause {
        let of_system = one.downcast_ref::<io::Error>();
        if of_system.is_some_and(|it| it.raw_os_error().is_some()) {
            return error.into();
        }
        cause = one.source();
    }
    BundleError::NotATar(match count {
        0 => "it is not a tar archive",
        _ => "it is a damaged or incomplete tar archive",
    })
}

fn once(
    place: &mut Option<Vec<u8>>,
    entry: &mut Entry<'_, impl Read>,
    name: &str,
) -> Result<(), BundleError> {
    let bytes = content(entry, name, MANIFEST_BYTES)?;
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
    entry
        .read_to_end(&mut bytes)
        .map_err(|error| torn(error, 1))?;
    if bytes.len() as u64 == size {
        return Ok(bytes);
    }
    Err(torn(io::ErrorKind::UnexpectedEof.into(), 1))
}

/// What an entry is for, by its name and kind.
fn place(name: &str, kind: EntryType) -> Result<Place, String> {
    let plain = name.strip_prefix("./").unwrap_or(name);
    if kind.is_dir() {
        return match plain.trim_end_matches('/') {
            "" | "." | "blobs" | "blobs/sha256" => Ok(Place::Ignored),
            _ => Err("is a directory that no layout has".to_owned()),
        };
    }
    if !kind.is_file() {
        return Err("is neither a file nor a directory".to_owned());
    }
    match plain {
        LAYOUT_FILE => Ok(Place::Layout),
        INDEX_FILE => Ok(Place::Index),
        other if PASSED_OVER.contains(&other) => Ok(Place::Ignored),
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
