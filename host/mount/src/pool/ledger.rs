//! The ledger of a pool: bytes promised to each tree and image, the project that enforces them, and what a copy was copied from. Apart
//! because it must be safe from both sides: a tenant can write everything in its volume (extended attributes too), so it lies in the host's
//! own folder; a killed host must not leave a promise that nothing uses, so a record belongs to an inode and is told apart by its birth.
//!
//! One file of lines, appended to, read once. It knows neither paths' rules nor quotas.

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

const FILE_NAME: &str = "ledger";
/// Where a shorter one is written before it is renamed.
const NEW_FILE_NAME: &str = "ledger.new";
/// A ledger with this many lines more than twice its records is written anew when it is read: half a megabyte.
const SPARE_LINES: usize = 4096;

/// What a file system knows a file by, for as long as it lives. Numbers are used again, births are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Inode {
    number: u64,
    born: (i64, u32),
}

/// What a copy was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Where it was then.
    pub(super) path: String,
    /// Which it was.
    pub(super) inode: Inode,
}

/// What is known of a tree or image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// In bytes.
    #[serde(default)]
    pub(super) promised: u64,
    /// The project whose limit enforces the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    /// Where an image was when it was last looked at: a hint, to be held against the inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    /// Whether it began as a copy that shares blocks with its source: what it takes on disk is then not all its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) shares_blocks: bool,
}

/// One line: what holds for an inode from here on; without a record, nothing.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    inode: Inode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<Record>,
}

#[derive(Debug)]
struct Book {
    file: File,
    length: u64,
    records: HashMap<u64, (Inode, Record)>,
    promised: u64,
}

/// What the ledger says of all inodes but one.
#[derive(Debug)]
pub(super) struct Others<'a> {
    book: &'a Book,
    inode: Inode,
    /// Bytes promised to them.
    pub(super) promised: u64,
}

/// The ledger of one pool.
#[derive(Debug)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    /// Length up to which the file is on stable storage. Held during the wait, so that one wait serves all.
    synced: Mutex<u64>,
    /// The same open file, to wait for without the book.
    file: File,
}

impl Inode {
    /// Of a `statx` that asked for [`Inode::FIELDS`]. A file system without births is trusted not to use numbers again at once.
    pub(super) fn of(status: &Statx) -> Self {
        Self {
            number: status.stx_ino,
            born: (status.stx_btime.tv_sec, status.stx_btime.tv_nsec),
        }
    }

    /// What to ask `statx` for.
    pub(super) const FIELDS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

    /// Of an open file.
    pub(super) fn of_fd(fd: impl AsFd) -> Result<(Self, Statx), Errno> {
        let status = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, Self::FIELDS)?;
        Ok((Self::of(&status), status))
    }
}

impl Ledger {
    /// Reads the ledger in the host's folder of a pool; makes it if there is none.
    pub(super) fn open(folder: &OwnedFd) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(folder, FILE_NAME, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(fd);
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let (records, lines, whole) = read(&text);
        if !whole || lines > SPARE_LINES + 2 * records.len() {
            file = rewrite(folder, &records)?;
        }
        let length = file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        rustix::fs::fsync(folder)?;
        Ok(Self {
            synced: Mutex::new(length),
            file: file.try_clone()?,
            book: Mutex::new(Book {
                file,
                length,
                promised: records.values().map(|(_, record)| record.promised).sum(),
                records,
            }),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes that are promised.
    #[cfg(test)]
    pub(super) fn promised(&self) -> u64 {
        self.book().promised
    }

    /// Everything that is known, as it is at one moment.
    pub(super) fn all(&self) -> Vec<(Inode, Record)> {
        self.book().records.values().cloned().collect()
    }

    /// Highest project in use; 0 if none is.
    pub(super) fn last_project(&self) -> u32 {
        let book = self.book();
        let projects = book
            .records
            .values()
            .filter_map(|(_, record)| record.project);
        projects.max().unwrap_or(0)
    }

    /// What is known of an inode.
    pub(super) fn get(&self, inode: Inode) -> Record {
        self.book().get(inode)
    }

    /// Something was renamed: the hints of what is there, or in it, follow. Durable after [`Ledger::sync`].
    pub(super) fn moved(&self, from: &str, to: &str) -> io::Result<()> {
        let mut book = self.book();
        let moved: Vec<_> = book
            .records
            .values()
            .filter_map(|(inode, record)| {
                let rest = record.path.as_deref()?.strip_prefix(from)?;
                let path =
                    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"));
                let path = Some(path?);
                Some((
                    *inode,
                    Record {
                        path,
                        ..record.clone()
                    },
                ))
            })
            .collect();
        for (inode, record) in moved {
            book.set(inode, record)?;
        }
        Ok(())
    }

    /// Changes what is known of an inode, if `change` allows it in view of all others and of the old record. Durable after
    /// [`Ledger::sync`].
    pub(super) fn update<E: From<io::Error>>(
        &self,
        inode: Inode,
        change: impl FnOnce(&Others<'_>, &mut Record) -> Result<(), E>,
    ) -> Result<Record, E> {
        let mut book = self.book();
        let before = book.get(inode);
        let others = Others {
            promised: book.promised.saturating_sub(before.promised),
            book: &book,
            inode,
        };
        let mut after = before.clone();
        change(&others, &mut after)?;
        if after != before {
            book.set(inode, after)?;
        }
        Ok(before)
    }

    /// An inode dies: by its number, since what is being deleted is known by that. Durable on return; the project that has become free.
    pub(super) fn forget(&self, number: u64) -> io::Result<Option<u32>> {
        let record = {
            let mut book = self.book();
            let Some((inode, record)) = book.records.get(&number).cloned() else {
                return Ok(None);
            };
            book.set(inode, Record::default())?;
            record
        };
        self.sync()?;
        Ok(record.project)
    }

    /// Returns when every change before the call is on stable storage.
    pub(super) fn sync(&self) -> io::Result<()> {
        let wanted = self.book().length;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= wanted {
            return Ok(());
        }
        let reached = self.book().length;
        self.file.sync_data()?;
        *synced = reached;
        Ok(())
    }
}

impl Others<'_> {
    /// Each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Inode, Record)> {
        let records = self.book.records.values();
        records.filter(|(inode, _)| *inode != self.inode)
    }
}

impl Book {
    fn get(&self, inode: Inode) -> Record {
        match self.records.get(&inode.number) {
            Some((known, record)) if *known == inode => record.clone(),
            _ => Record::default(),
        }
    }

    fn set(&mut self, inode: Inode, record: Record) -> io::Result<()> {
        let record = (record != Record::default()).then_some(record);
        let line = Line { inode, record };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            // A part of a line would spoil the next one.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += text.len() as u64;
        let old = match line.record {
            Some(record) => {
                self.promised = self.promised.saturating_add(record.promised);
                self.records.insert(inode.number, (inode, record))
            }
            None => self.records.remove(&inode.number),
        };
        // Also the promise of a file that had this number before.
        let freed = old.map_or(0, |(_, record)| record.promised);
        self.promised = self.promised.saturating_sub(freed);
        Ok(())
    }
}

/// Records, the number of lines, and whether all of it was understood. A last line without an end was never acknowledged.
fn read(text: &[u8]) -> (HashMap<u64, (Inode, Record)>, usize, bool) {
    let mut records = HashMap::new();
    let mut lines = 0;
    let mut whole = true;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        lines += 1;
        match (line.last(), serde_json::from_slice::<Line>(line)) {
            (Some(b'\n'), Ok(Line { inode, record })) => match record {
                Some(record) => drop(records.insert(inode.number, (inode, record))),
                None => drop(records.remove(&inode.number)),
            },
            (Some(b'\n'), Err(error)) => {
                whole = false;
                tracing::warn!(line = lines, %error, "a line of a pool's ledger is damaged; what it promised is forgotten");
            }
            _ => whole = false,
        }
    }
    (records, lines, whole)
}

fn rewrite(folder: &OwnedFd, records: &HashMap<u64, (Inode, Record)>) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(rustix::fs::openat(folder, NEW_FILE_NAME, flags, mode)?);
    let mut text = Vec::new();
    for (inode, record) in records.values() {
        let line = Line {
            inode: *inode,
            record: Some(record.clone()),
        };
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    file.write_all(&text)?;
    file.sync_all()?;
    rustix::fs::renameat(folder, NEW_FILE_NAME, folder, FILE_NAME)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
