//! The ledger of a pool: the bytes promised to each tree and image, the project that enforces them, and the origin of each copy. A tenant can write
//! everything in its volume (extended attributes too), so the ledger lies in the host's private directory. A killed host must not leave a promise
//! that nothing uses, so a record belongs to an inode and is identified by its birth time.
//!
//! The cost of a change does not depend on the number of records, except for a rename. This module knows neither the rules of paths nor quotas;
//! `ledger/lines` handles the file.

mod lines;

use lines::{Lines, SPARE_LINES};
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wasmount_core::mutex::lock;

/// How long a measurement of the used part of the promises is valid. 10 s: until then only what others than the pool's volumes write could be
/// promised as well, and they can write that at any time. A pool with 10,000 images is measured six times a minute at most.
const MEASURED_FOR: Duration = Duration::from_secs(10);

/// The identity of a file in its file system, for the lifetime of the file. Inode numbers are reused, birth times are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Inode {
    /// In its file system.
    pub(super) number: u64,
    born: (i64, u32),
}

/// The source of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Its path at that time.
    pub(super) path: String,
    /// Its inode.
    pub(super) inode: Inode,
}

/// The record of a tree or image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Promised size in bytes.
    #[serde(default)]
    pub(super) promised: u64,
    /// The project whose limit enforces the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<u32>,
    /// The whole tree is in its project. It is recorded last: without it, a killed host may have put only a part of the tree there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) in_project: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    /// Path of an image when it was last measured. It is a hint that must be verified by the inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    /// Identifier of the group copy that made it. All copies of the same moment have the same identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moment: Option<String>,
    /// Whether it was made as a copy that shares blocks with its source: then not all of its used blocks are its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) shares_blocks: bool,
}

/// A summary of the records of all inodes but one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    /// Bytes promised to them.
    promised: u64,
    /// The part of their promises that was unused at the last measurement, and the free bytes of the disk right after. `None` if the measurement is
    /// too old.
    seen: Option<(u64, u64)>,
}

/// The ledger of one pool.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: OwnedFd,
    book: Mutex<Book>,
    /// Number of bytes that are on stable storage. The lock is held during a sync, so that one sync serves all waiting calls.
    synced: Mutex<u64>,
}

/// The records in memory and their sums, which each change updates. Only a measurement and a rename iterate over all records.
#[derive(Debug)]
struct Book {
    lines: Lines,
    /// By inode number.
    records: HashMap<u64, Known>,
    promised: u64,
    /// The unused part of the promises at the last measurement.
    outstanding: u64,
    /// Free bytes of the disk at the last measurement, and its time.
    measured: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct Known {
    inode: Inode,
    record: Record,
    /// Bytes in use at the last measurement.
    used: u64,
}

impl Inode {
    /// From a `statx` that requested [`Inode::FIELDS`]. A file system without birth times is assumed not to reuse inode numbers at once.
    pub(super) fn of(status: &Statx) -> Self {
        Self {
            number: status.stx_ino,
            born: (status.stx_btime.tv_sec, status.stx_btime.tv_nsec),
        }
    }

    /// Fields to request from `statx`.
    pub(super) const FIELDS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

    /// The identity of an open file.
    pub(super) fn of_fd(fd: impl AsFd) -> Result<(Self, Statx), Errno> {
        let status = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, Self::FIELDS)?;
        Ok((Self::of(&status), status))
    }
}

impl Ledger {
    /// Reads the ledger in the host's private directory of a pool; creates it if it is missing.
    pub(super) fn open(folder: &OwnedFd) -> io::Result<Self> {
        let (lines, records) = Lines::open(folder)?;
        let mut book = Book {
            lines,
            records: HashMap::new(),
            promised: 0,
            outstanding: 0,
            measured: None,
        };
        for (inode, record) in records {
            book.insert(inode, record);
        }
        Ok(Self {
            folder: folder.try_clone()?,
            synced: Mutex::new(book.lines.written),
            book: Mutex::new(book),
        })
    }

    /// All records, as of one moment.
    pub(super) fn all(&self) -> Vec<(Inode, Record)> {
        let book = lock(&self.book);
        let all = book.records.values();
        all.map(|known| (known.inode, known.record.clone()))
            .collect()
    }

    /// The record of an inode.
    pub(super) fn get(&self, inode: Inode) -> Record {
        lock(&self.book).get(inode)
    }

    /// Stores a measurement: the used bytes of each promise, and the free bytes right after. A record that was added since counts as unused; a
    /// removed one is ignored. Returns the promised bytes that are not used.
    pub(super) fn measured(&self, used: &[(Inode, u64)], free: u64) -> u64 {
        let book = &mut *lock(&self.book);
        for (inode, used) in used {
            let known = book.records.get_mut(&inode.number);
            if let Some(known) = known.filter(|known| known.inode == *inode) {
                book.outstanding = book.outstanding.saturating_sub(known.outstanding());
                known.used = *used;
                book.outstanding = book.outstanding.saturating_add(known.outstanding());
            }
        }
        book.measured = Some((free, Instant::now()));
        book.outstanding
    }

    /// Updates the path hints of a renamed path and of everything below it. Durable after [`Ledger::sync`].
    pub(super) fn moved(&self, from: &str, to: &str) -> io::Result<()> {
        let mut book = lock(&self.book);
        let moved = |known: &Known| {
            let rest = known.record.path.as_deref()?.strip_prefix(from)?;
            // A path that only has the same prefix is skipped.
            let record = (rest.is_empty() || rest.starts_with('/')).then(|| Record {
                path: Some(format!("{to}{rest}")),
                ..known.record.clone()
            });
            Some((known.inode, record?))
        };
        let moved: Vec<_> = book.records.values().filter_map(moved).collect();
        let mut moved = moved.into_iter();
        moved.try_for_each(|(inode, record)| book.set(inode, record))
    }

    /// Changes the record of an inode, if `change` allows it in view of all other records and of the old one, which is returned. Durable after
    /// [`Ledger::sync`].
    pub(super) fn update(
        &self,
        inode: Inode,
        change: impl FnOnce(Others, &mut Record) -> bool,
    ) -> io::Result<Option<Record>> {
        let mut book = lock(&self.book);
        let before = book.get(inode);
        let mut after = before.clone();
        if !change(book.others(inode), &mut after) {
            return Ok(None);
        }
        if after != before {
            book.set(inode, after)?;
        }
        Ok(Some(before))
    }

    /// Removes the record of a deleted inode, by its number, which identifies files that are being deleted. Durable on return. Returns the project
    /// that became free.
    pub(super) fn forget(&self, number: u64) -> io::Result<Option<u32>> {
        let Some(record) = lock(&self.book).forget(number)? else {
            return Ok(None);
        };
        self.sync()?;
        Ok(record.project)
    }

    /// Returns when every change before the call is on stable storage.
    pub(super) fn sync(&self) -> io::Result<()> {
        let required = lock(&self.book).lines.written;
        let mut synced = lock(&self.synced);
        if *synced >= required {
            return Ok(());
        }
        let (reached, file) = {
            let Book { lines, records, .. } = &mut *lock(&self.book);
            let records = records.values();
            let records = records.map(|known| (&known.inode, &known.record));
            if lines.shorten(&self.folder, records, SPARE_LINES)? {
                *synced = lines.written;
                return Ok(());
            }
            (lines.written, Arc::clone(&lines.file))
        };
        if let Err(error) = file.sync_data() {
            // The kernel reports a failed write once and then treats the pages as clean (fsync(2)), so only a new file is reliable.
            lock(&self.book).lines.is_distrusted = true;
            return Err(error);
        }
        *synced = reached;
        Ok(())
    }
}

impl Known {
    fn outstanding(&self) -> u64 {
        self.record.promised.saturating_sub(self.used)
    }
}

impl Book {
    fn get(&self, inode: Inode) -> Record {
        match self.records.get(&inode.number) {
            Some(known) if known.inode == inode => known.record.clone(),
            _ => Record::default(),
        }
    }

    fn others(&self, inode: Inode) -> Others {
        let own = self.records.get(&inode.number);
        let promised = own.map_or(0, |known| known.record.promised);
        let outstanding = own.map_or(0, Known::outstanding);
        let measured = self.measured.filter(|(_, at)| at.elapsed() < MEASURED_FOR);
        Others {
            promised: self.promised.saturating_sub(promised),
            seen: measured.map(|(free, _)| (self.outstanding.saturating_sub(outstanding), free)),
        }
    }

    fn set(&mut self, inode: Inode, record: Record) -> io::Result<()> {
        if record == Record::default() {
            return self.forget(inode.number).map(drop);
        }
        self.lines.write(inode, Some(&record))?;
        self.insert(inode, record);
        Ok(())
    }

    /// Also removes the promise of an earlier file with this number.
    fn forget(&mut self, number: u64) -> io::Result<Option<Record>> {
        let Some(known) = self.records.get(&number) else {
            return Ok(None);
        };
        self.lines.write(known.inode, None)?;
        Ok(self.remove(number).map(|known| known.record))
    }

    fn insert(&mut self, inode: Inode, record: Record) {
        let before = self.remove(inode.number);
        let before = before.filter(|before| before.inode == inode);
        let known = Known {
            inode,
            record,
            used: before.map_or(0, |before| before.used),
        };
        self.promised = self.promised.saturating_add(known.record.promised);
        self.outstanding = self.outstanding.saturating_add(known.outstanding());
        self.records.insert(inode.number, known);
    }

    fn remove(&mut self, number: u64) -> Option<Known> {
        let known = self.records.remove(&number)?;
        self.promised = self.promised.saturating_sub(known.record.promised);
        self.outstanding = self.outstanding.saturating_sub(known.outstanding());
        Some(known)
    }
}

impl Others {
    /// How much can be promised in addition to the others, to a holder that may still use `own` bytes, with `free` bytes on the disk now. Never too
    /// much: the free bytes at the measurement limit the result, because the others may have released bytes since, which they may use again.
    pub(super) fn leave(&self, free: u64, own: u64) -> u64 {
        let left = |free: u64, promised: u64| free.saturating_sub(promised.saturating_add(own));
        let unseen = left(free, self.promised);
        let seen = self
            .seen
            .map(|(outstanding, then)| left(free.min(then), outstanding));
        unseen.max(seen.unwrap_or(0))
    }
}

#[cfg(test)]
pub(super) mod tests;
