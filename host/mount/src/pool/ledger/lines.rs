//! The ledger's file: lines that are appended, read once, and written anew when most of them are out of date.
//!
//! Blocks are taken ahead, and the last of them are kept for lines that forget: on a full disk a volume can still be deleted.

use super::{Inode, Record};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

pub(super) const FILE_NAME: &str = "ledger";
/// Where a shorter one is written before it is renamed.
const NEW_FILE_NAME: &str = "ledger.new";
/// A ledger with this many lines more than twice its records is written anew: half a megabyte.
pub(super) const SPARE_LINES: usize = 4096;
/// The same when it is opened, which waits for the disk in any case: 8 KiB.
pub(super) const SPARE_LINES_AT_OPEN: usize = 64;
/// Blocks are taken in steps of this many bytes.
const STEP_BYTES: u64 = 256 << 10;
/// Of the blocks taken, kept for lines that forget: a thousand of the longest, each of which gives an inode's space back.
const KEPT_BYTES: u64 = 128 << 10;

/// One line: what holds for an inode from here on; without a record, nothing.
#[derive(Debug, Serialize, Deserialize)]
struct Line<R> {
    inode: Inode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<R>,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Lines {
    /// Shared with who waits for it to be on stable storage.
    pub(super) file: Arc<File>,
    /// Of what is whole.
    length: u64,
    /// Up to where it has blocks.
    taken: u64,
    count: usize,
    /// Bytes written since the ledger was opened, over all its files.
    pub(super) written: u64,
    /// Count of lines at which it is worth another try to write it anew, after one that failed.
    patience: usize,
    /// It may not hold what was written to it: only another file is sure.
    pub(super) is_distrusted: bool,
}

impl Lines {
    /// Reads what is there, or makes an empty file; with what holds.
    pub(super) fn open(folder: &OwnedFd) -> io::Result<(Self, Vec<(Inode, Record)>)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(folder, FILE_NAME, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(fd);
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let (records, count, is_whole) = read(&text);
        let length = text.len() as u64;
        let mut lines = Self {
            file: Arc::new(file),
            length,
            taken: length,
            count,
            written: 0,
            patience: 0,
            is_distrusted: !is_whole,
        };
        let holding = records.iter().map(|(inode, record)| (inode, record));
        lines.shorten(folder, holding, SPARE_LINES_AT_OPEN)?;
        lines.file.sync_all()?;
        rustix::fs::fsync(folder)?;
        Ok((lines, records))
    }

    /// Writes the file anew if it has so many lines more than twice those that hold, or cannot be trusted. Everything is on stable storage if it
    /// did. A full disk keeps no pool from being opened or used; a file that cannot be trusted does.
    pub(super) fn shorten<'a>(
        &mut self,
        folder: &OwnedFd,
        records: impl ExactSizeIterator<Item = (&'a Inode, &'a Record)>,
        spare: usize,
    ) -> io::Result<bool> {
        let is_long = self.count > spare + 2 * records.len() && self.count >= self.patience;
        if !is_long && !self.is_distrusted {
            return Ok(false);
        }
        match self.rewrite(folder, records) {
            Ok(()) => Ok(true),
            Err(error) if self.is_distrusted => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a pool's ledger could not be written anew; the old one goes on");
                Ok(false)
            }
        }
    }

    /// Appends what holds for an inode; without a record nothing does any more.
    pub(super) fn write(&mut self, inode: Inode, record: Option<&Record>) -> io::Result<()> {
        let text = line(inode, record)?;
        if record.is_some() {
            self.take_blocks(text.len() as u64)?;
        }
        self.append(&text)
    }

    /// Writes another file with these records only, and puts it in the place of this one; on stable storage on return.
    fn rewrite<'a>(
        &mut self,
        folder: &OwnedFd,
        records: impl Iterator<Item = (&'a Inode, &'a Record)>,
    ) -> io::Result<()> {
        // If this fails, not again before it has grown by as much once more.
        self.patience = self.count + SPARE_LINES;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(folder, NEW_FILE_NAME, flags, mode)?);
        let mut text = Vec::new();
        let mut count = 0;
        for (inode, record) in records {
            text.extend(line(*inode, Some(record))?);
            count += 1;
        }
        file.write_all(&text)?;
        file.sync_all()?;
        rustix::fs::renameat(folder, NEW_FILE_NAME, folder, FILE_NAME)?;
        // The old one has no name any more, whatever comes: a line that is appended to it is lost.
        self.file = Arc::new(file);
        self.length = text.len() as u64;
        self.taken = self.length;
        self.count = count;
        self.patience = 0;
        self.is_distrusted = true;
        rustix::fs::fsync(folder)?;
        self.is_distrusted = false;
        Ok(())
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(text, self.length) {
            // Whatever became of a part of it is written over by the next line, or dropped as a line without an end.
            let _ = self.file.set_len(self.length);
            self.taken = self.length;
            return Err(error);
        }
        let bytes = text.len() as u64;
        self.length += bytes;
        self.written += bytes;
        self.count += 1;
        Ok(())
    }

    /// Makes sure that there is room for a line, and for forgetting after it.
    fn take_blocks(&mut self, bytes: u64) -> io::Result<()> {
        if self.length + bytes + KEPT_BYTES <= self.taken {
            return Ok(());
        }
        let size = STEP_BYTES.max(bytes + KEPT_BYTES);
        match fallocate(&*self.file, FallocateFlags::KEEP_SIZE, self.length, size) {
            Ok(()) => self.taken = self.length + size,
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO)) => {
                return Err(errno.into());
            }
            // The file system takes no blocks ahead.
            Err(_) => self.taken = u64::MAX,
        }
        Ok(())
    }
}

fn line(inode: Inode, record: Option<&Record>) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Line { inode, record })?;
    text.push(b'\n');
    Ok(text)
}

/// What holds, the number of lines, and whether all of it was understood. A last line without an end was never acknowledged.
fn read(text: &[u8]) -> (Vec<(Inode, Record)>, usize, bool) {
    let mut records = HashMap::new();
    let mut count = 0;
    let mut is_whole = true;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        count += 1;
        match (line.last(), serde_json::from_slice::<Line<Record>>(line)) {
            (Some(b'\n'), Ok(Line { inode, record })) => match record {
                Some(record) => drop(records.insert(inode.number, (inode, record))),
                None => drop(records.remove(&inode.number)),
            },
            (Some(b'\n'), Err(error)) => {
                is_whole = false;
                tracing::warn!(line = count, %error, "a line of a pool's ledger is damaged; what it promised is forgotten");
            }
            _ => is_whole = false,
        }
    }
    (records.into_values().collect(), count, is_whole)
}
