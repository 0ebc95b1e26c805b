//! The ledger's file: lines that are appended, read once, and rewritten when most of them are outdated.
//!
//! Blocks are allocated in advance, and the last of them are reserved for lines that remove a record: on a full disk a volume can still be deleted.

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
/// Name of the shorter file before it is renamed.
const NEW_FILE_NAME: &str = "ledger.new";
/// A ledger with this many lines more than twice its records is rewritten: half a megabyte.
pub(super) const SPARE_LINES: usize = 4096;
/// The same when the ledger is opened, which waits for the disk in any case: 8 KiB.
pub(super) const SPARE_LINES_AT_OPEN: usize = 64;
/// Blocks are allocated in steps of this many bytes.
const STEP_BYTES: u64 = 256 << 10;
/// Part of the allocated blocks that is reserved for lines that remove a record: a thousand of the longest lines, each of which releases an inode's
/// space.
const KEPT_BYTES: u64 = 128 << 10;

/// One line: the record of an inode from here on. Without a record, the inode has none.
#[derive(Debug, Serialize, Deserialize)]
struct Line<R> {
    inode: Inode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<R>,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Lines {
    /// Shared with callers that wait for a sync.
    pub(super) file: Arc<File>,
    /// Length of the complete lines.
    length: u64,
    /// Offset up to which blocks are allocated.
    allocated: u64,
    count: usize,
    /// Bytes written since the ledger was opened, over all its files.
    pub(super) written: u64,
    /// Number of lines at which a rewrite is tried again after a failed one.
    retry_at: usize,
    /// The file may have lost a write, so only a new file is reliable.
    pub(super) is_distrusted: bool,
}

impl Lines {
    /// Reads an existing file or creates an empty one. Returns the current records.
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
            allocated: length,
            count,
            written: 0,
            retry_at: 0,
            is_distrusted: !is_whole,
        };
        let holding = records.iter().map(|(inode, record)| (inode, record));
        lines.shorten(folder, holding, SPARE_LINES_AT_OPEN)?;
        lines.file.sync_all()?;
        rustix::fs::fsync(folder)?;
        Ok((lines, records))
    }

    /// Rewrites the file if it has so many lines more than twice the current records, or if it is not reliable. After a rewrite everything is on
    /// stable storage. A full disk does not prevent a pool from being opened or used; an unreliable file does.
    pub(super) fn shorten<'a>(
        &mut self,
        folder: &OwnedFd,
        records: impl ExactSizeIterator<Item = (&'a Inode, &'a Record)>,
        spare: usize,
    ) -> io::Result<bool> {
        let is_long = self.count > spare + 2 * records.len() && self.count >= self.retry_at;
        if !is_long && !self.is_distrusted {
            return Ok(false);
        }
        match self.rewrite(folder, records) {
            Ok(()) => Ok(true),
            Err(error) if self.is_distrusted => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a pool's ledger could not be rewritten; the old one stays in use");
                Ok(false)
            }
        }
    }

    /// Appends the record of an inode. `None` removes the record.
    pub(super) fn write(&mut self, inode: Inode, record: Option<&Record>) -> io::Result<()> {
        let text = line(inode, record)?;
        let bytes = text.len() as u64;
        if record.is_some() {
            self.allocate(bytes)?;
        }
        if let Err(error) = self.file.write_all_at(&text, self.length) {
            // A partially written line is overwritten by the next one, or dropped as a line without an end.
            let _ = self.file.set_len(self.length);
            self.allocated = self.length;
            return Err(error);
        }
        self.length += bytes;
        self.written += bytes;
        self.count += 1;
        Ok(())
    }

    /// Writes these records to a new file, which replaces this one. It is on stable storage on return.
    fn rewrite<'a>(
        &mut self,
        folder: &OwnedFd,
        records: impl Iterator<Item = (&'a Inode, &'a Record)>,
    ) -> io::Result<()> {
        // If this fails, the host retries only after the ledger has grown by the same amount.
        self.retry_at = self.count + SPARE_LINES;
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
        // The old file has no name any more, whatever happens next: a line that is appended to it is lost.
        self.file = Arc::new(file);
        self.length = text.len() as u64;
        self.allocated = self.length;
        self.count = count;
        self.retry_at = 0;
        self.is_distrusted = true;
        rustix::fs::fsync(folder)?;
        self.is_distrusted = false;
        Ok(())
    }

    /// Ensures that there is space for a line, and for removals after it.
    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        if self.length + bytes + KEPT_BYTES <= self.allocated {
            return Ok(());
        }
        let size = STEP_BYTES.max(bytes + KEPT_BYTES);
        match fallocate(&*self.file, FallocateFlags::KEEP_SIZE, self.length, size) {
            Ok(()) => self.allocated = self.length + size,
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::IO)) => {
                return Err(errno.into());
            }
            // The file system does not support allocation in advance.
            Err(_) => self.allocated = u64::MAX,
        }
        Ok(())
    }
}

fn line(inode: Inode, record: Option<&Record>) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Line { inode, record })?;
    text.push(b'\n');
    Ok(text)
}

/// Returns the current records, the number of lines, and whether every line was valid. A last line without an end was never acknowledged.
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
