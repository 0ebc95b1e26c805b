//! A text that is rewritten often, in two files in turn.
//!
//! A file is overwritten in place, in its allocated blocks: no metadata of the file system changes, so there is no journal commit to wait for (there
//! are two where a file is written aside, renamed, and its directory synced). A checksum detects an incomplete file; the other one is used then. Each
//! is JSON, padded with spaces.

use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The two files.
pub(super) const NAMES: [&str; 2] = ["history.0.json", "history.1.json"];
/// Suffix of a file that cannot be read and is kept for an administrator.
pub(super) const UNREADABLE: &str = "unreadable";
/// A file grows by this much at a time, since growing waits for the file system's journal: some tens of versions.
const GROWTH: usize = 64 << 10;
/// Largest file that is read: hundreds of times the size of the remembered versions.
const MOST_BYTES: u64 = 64 << 20;
/// Digits of the largest number.
const DIGITS: usize = 20;
/// Only the host reads it.
const FILE_MODE: u32 = 0o600;

/// Which file is written next, and how often one was written.
#[derive(Debug)]
pub(super) struct Slots {
    directory: PathBuf,
    /// The turn of the newest text; 0: there is none.
    turn: u64,
    /// The most bytes of each file that are not padding.
    used: [usize; 2],
}

/// The content of the two files.
#[derive(Debug)]
pub(super) enum SlotContent {
    /// Nothing was written yet.
    Nothing,
    /// The newest complete text.
    Text(Vec<u8>),
    /// Neither file is complete.
    Damaged(String),
}

impl Slots {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            turn: 0,
            used: [usize::MAX; 2],
        }
    }

    /// Reads both files.
    pub(super) fn read(&mut self) -> io::Result<SlotContent> {
        *self = Self::new(&self.directory);
        let (mut newest, mut damaged) = (None, None);
        for name in NAMES {
            let content = match read(&self.directory.join(name)) {
                Ok(content) => content,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match whole(&content) {
                Some((turn, text)) if turn > self.turn => {
                    self.turn = turn;
                    newest = Some(text.to_owned());
                }
                Some(_) => {}
                None => damaged = Some(format!("{name} is incomplete")),
            }
        }
        Ok(match (newest, damaged) {
            (Some(text), _) => SlotContent::Text(text),
            (None, Some(reason)) => SlotContent::Damaged(reason),
            (None, None) => SlotContent::Nothing,
        })
    }

    /// Renames both files for an administrator, and starts with empty ones.
    pub(super) fn put_aside(&mut self) -> io::Result<()> {
        for name in NAMES {
            let path = self.directory.join(name);
            let aside = self.directory.join(format!("{name}.{UNREADABLE}"));
            match fs::rename(path, aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.turn = 0;
        Ok(())
    }

    /// Makes a text durable. If that fails, the text before stays the newest one.
    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let turn = self.turn.saturating_add(1);
        let [even, odd] = &mut self.used;
        let [even_name, odd_name] = NAMES;
        let (name, used) = if turn.is_multiple_of(2) {
            (even_name, even)
        } else {
            (odd_name, odd)
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(self.directory.join(name))?;
        let content = content(turn, text);
        // The rest of a longer earlier text would make the file invalid JSON.
        let over = std::mem::replace(used, content.len());
        let written = put(&self.directory, &file, content, over);
        match written {
            Ok(()) => self.turn = turn,
            Err(_) => {
                *used = usize::MAX;
                // If the disk stored the text but reported an error, a restart must not find it. Best effort: the disk is broken.
                drop(file.write_at(b" ", 0).and_then(|_| file.sync_data()));
            }
        }
        written
    }
}

/// Overwrites a file from its start, with spaces over the rest of an earlier text, and syncs it.
fn put(directory: &Path, file: &File, mut content: Vec<u8>, over: usize) -> io::Result<()> {
    let has = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if content.len() <= has {
        content.resize(over.min(has).max(content.len()), b' ');
        file.write_all_at(&content, 0)?;
        return file.sync_data();
    }
    content.resize(content.len().next_multiple_of(GROWTH), b' ');
    file.write_all_at(&content, 0)?;
    file.sync_all()?;
    if has == 0 {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// The new content of a file.
fn content(turn: u64, text: &[u8]) -> Vec<u8> {
    let mut content = head(turn, text).into_bytes();
    content.extend(text);
    content.push(b'}');
    content
}

/// The header; it has the same length for every text.
fn head(turn: u64, text: &[u8]) -> String {
    let bytes = text.len();
    let digest = Sha256::new()
        .chain_update(turn.to_le_bytes())
        .chain_update(text)
        .finalize();
    let digest = hex::encode(digest);
    format!(
        "{{\"turn\":\"{turn:0DIGITS$}\",\"bytes\":\"{bytes:0DIGITS$}\",\"sha256\":\"{digest}\",\"text\":"
    )
}

/// The text of a file and its turn, if it is complete.
fn whole(content: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = content.split_at_checked(head(0, b"").len())?;
    let numbers = std::str::from_utf8(first).ok()?;
    let mut numbers = numbers.split('"').filter(|part| part.len() == DIGITS);
    let turn: u64 = numbers.next()?.parse().ok()?;
    let bytes: usize = numbers.next()?.parse().ok()?;
    let text = rest.get(..bytes)?;
    let is_whole = first == head(turn, text).as_bytes() && rest.get(bytes) == Some(&b'}');
    is_whole.then_some((turn, text))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?
        .take(MOST_BYTES)
        .read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(folder: &Path) -> (Slots, SlotContent) {
        let mut slots = Slots::new(folder);
        let found = slots.read().unwrap();
        (slots, found)
    }

    fn text(found: &SlotContent) -> &[u8] {
        match found {
            SlotContent::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Writes two texts, the second one newer; returns the file of each.
    fn two(folder: &Path) -> [PathBuf; 2] {
        let (mut slots, found) = opened(folder);
        assert!(matches!(found, SlotContent::Nothing));
        slots.write(b"[1]").unwrap();
        slots.write(b"[1,2]").unwrap();
        [folder.join(NAMES[1]), folder.join(NAMES[0])]
    }

    #[test]
    fn the_newest_text_is_read_again_however_many_there_were() {
        let folder = tempfile::tempdir().unwrap();
        let (mut slots, _) = opened(folder.path());
        for number in 0..7 {
            // Longer and shorter texts, in turn.
            let written = format!("{:?}", vec![number; 1 + number % 3]);
            slots.write(written.as_bytes()).unwrap();
            let (again, found) = opened(folder.path());
            assert_eq!(text(&found), written.as_bytes());
            slots = again;
        }
    }

    #[test]
    fn each_file_is_json_of_constant_size_until_it_must_grow() {
        let folder = tempfile::tempdir().unwrap();
        let files = two(folder.path());
        let (mut slots, _) = opened(folder.path());
        slots.write(b"[3]").unwrap();
        for (file, expected) in files.iter().zip(["[3]", "[1,2]"]) {
            let content = fs::read(file).unwrap();
            assert_eq!(content.len(), GROWTH);
            let value: serde_json::Value = serde_json::from_slice(&content).unwrap();
            assert_eq!(value["text"].to_string(), expected);
        }
        let long = serde_json::to_vec(&vec![7; GROWTH]).unwrap();
        slots.write(&long).unwrap();
        assert_eq!(fs::metadata(&files[1]).unwrap().len() as usize % GROWTH, 0);
        let (_, found) = opened(folder.path());
        assert_eq!(text(&found), long);
    }

    #[test]
    fn a_text_that_a_power_cut_left_by_halves_leaves_the_one_before() {
        for garbled in [0, 10, 60, 100, content(2, b"[1,2]").len() - 1] {
            let folder = tempfile::tempdir().unwrap();
            let [older, newer] = two(folder.path());
            let mut content = fs::read(&newer).unwrap();
            content[garbled] ^= 1;
            fs::write(&newer, &content).unwrap();
            let (mut slots, found) = opened(folder.path());
            assert_eq!(text(&found), b"[1]", "{garbled}");
            // The next text overwrites the incomplete file, never the newest text.
            let before = fs::read(&older).unwrap();
            slots.write(b"[3]").unwrap();
            assert_eq!(fs::read(&older).unwrap(), before);
            assert_eq!(text(&opened(folder.path()).1), b"[3]");
        }
    }

    #[test]
    fn a_file_that_was_cut_short_leaves_the_one_before() {
        for length in [0, 1, 60, 150] {
            let folder = tempfile::tempdir().unwrap();
            let [_, newer] = two(folder.path());
            let file = OpenOptions::new().write(true).open(&newer).unwrap();
            file.set_len(length).unwrap();
            assert_eq!(text(&opened(folder.path()).1), b"[1]", "{length}");
        }
    }

    #[test]
    fn a_failed_write_keeps_the_earlier_text() {
        let folder = tempfile::tempdir().unwrap();
        let [next, _] = two(folder.path());
        fs::remove_file(&next).unwrap();
        fs::create_dir(&next).unwrap();
        let (mut slots, found) = {
            let read = Slots::new(folder.path()).read();
            assert!(read.is_err(), "a directory is no file");
            fs::remove_dir(&next).unwrap();
            opened(folder.path())
        };
        assert_eq!(text(&found), b"[1,2]");
        fs::create_dir(&next).unwrap();
        assert!(slots.write(b"[3]").is_err());
        fs::remove_dir(&next).unwrap();
        assert_eq!(text(&opened(folder.path()).1), b"[1,2]");
        slots.write(b"[3]").unwrap();
        assert_eq!(text(&opened(folder.path()).1), b"[3]");
    }

    #[test]
    fn two_damaged_files_are_said_to_be_and_are_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        for file in two(folder.path()) {
            fs::write(file, "{\"turn\":").unwrap();
        }
        let (mut slots, found) = opened(folder.path());
        assert!(matches!(found, SlotContent::Damaged(_)), "{found:?}");
        slots.put_aside().unwrap();
        assert!(matches!(opened(folder.path()).1, SlotContent::Nothing));
        slots.write(b"[]").unwrap();
        assert_eq!(text(&opened(folder.path()).1), b"[]");
    }
}
