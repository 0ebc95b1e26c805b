//! The ledger of a pool: bytes promised to each tree and image, the project that enforces them, and what a copy was copied from. A tenant can write
//! everything in its volume (extended attributes too), so it lies in the host's own folder; a killed host must not leave a promise that nothing uses,
//! so a record belongs to an inode and is told apart by its birth.
//!
//! No change costs more when there are more records. It knows neither paths' rules nor quotas; the file is `ledger/lines`'s.

mod book;
mod lines;

use book::Book;
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long it holds what was taken of the promises. 10 s: until then only what others than the pool's volumes write could be promised as
/// well, and that they can write at any time; a pool with 10,000 images is looked at six times a minute at most.
const LOOK_HOLDS: Duration = Duration::from_secs(10);

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
    /// Which copies were made with it, all at one moment: they have the same name here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moment: Option<String>,
    /// Whether it began as a copy that shares blocks with its source: what it takes on disk is then not all its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) shares_blocks: bool,
}

/// What the ledger says of all inodes but one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    /// Bytes promised to them.
    promised: u64,
    /// What they had not taken yet at the last look, and the free bytes of the disk right after; none if that was too long ago.
    seen: Option<(u64, u64)>,
}

/// The ledger of one pool.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: OwnedFd,
    book: Mutex<Book>,
    /// Count of bytes up to which everything is on stable storage. Held during the wait, so that one wait serves all.
    synced: Mutex<u64>,
}

impl Inode {
    /// Of a `statx` that asked for [`Inode::FIELDS`]. A file system without births is trusted not to use numbers again at once.
    pub(super) fn of(status: &Statx) -> Self {
        Self {
            number: status.stx_ino,
            born: (status.stx_btime.tv_sec, status.stx_btime.tv_nsec),
        }
    }

    /// In its file system.
    pub(super) fn number(self) -> u64 {
        self.number
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
        let book = Book::open(folder)?;
        Ok(Self {
            folder: folder.try_clone()?,
            synced: Mutex::new(book.written()),
            book: Mutex::new(book),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes that are promised.
    #[cfg(test)]
    pub(super) fn promised(&self) -> u64 {
        self.book().promised()
    }

    /// Everything that is known, as it is at one moment.
    pub(super) fn all(&self) -> Vec<(Inode, Record)> {
        self.book().all()
    }

    /// Highest project that was ever in use; 0 if none was.
    pub(super) fn last_project(&self) -> u32 {
        self.book().last_project()
    }

    /// What is known of an inode.
    pub(super) fn get(&self, inode: Inode) -> Record {
        self.book().get(inode)
    }

    /// Somebody looked how many bytes of its promise each has taken, and then how many are free. Bytes that are promised and not taken.
    pub(super) fn looked(&self, taken: &[(Inode, u64)], free: u64) -> u64 {
        self.book().looked(taken, free, Instant::now())
    }

    /// Something was renamed: the hints of what is there, or in it, follow. Durable after [`Ledger::sync`].
    pub(super) fn moved(&self, from: &str, to: &str) -> io::Result<()> {
        self.book().moved(from, to)
    }

    /// Changes what is known of an inode, if `change` allows it in view of all others and of the old record. Durable after
    /// [`Ledger::sync`].
    pub(super) fn update<E: From<io::Error>>(
        &self,
        inode: Inode,
        change: impl FnOnce(Others, &mut Record) -> Result<(), E>,
    ) -> Result<Record, E> {
        let mut book = self.book();
        let before = book.get(inode);
        let mut after = before.clone();
        change(book.others(inode, LOOK_HOLDS), &mut after)?;
        if after != before {
            book.set(inode, after)?;
        }
        Ok(before)
    }

    /// An inode dies: by its number, since what is being deleted is known by that. Durable on return; the project that has become free.
    pub(super) fn forget(&self, number: u64) -> io::Result<Option<u32>> {
        let Some(record) = self.book().forget(number)? else {
            return Ok(None);
        };
        self.sync()?;
        Ok(record.project)
    }

    /// Returns when every change before the call is on stable storage.
    pub(super) fn sync(&self) -> io::Result<()> {
        let wanted = self.book().written();
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= wanted {
            return Ok(());
        }
        let (reached, file) = {
            let mut book = self.book();
            if book.shorten(&self.folder)? {
                *synced = book.written();
                return Ok(());
            }
            (book.written(), book.file())
        };
        self.wait(&file)?;
        *synced = reached;
        Ok(())
    }

    fn wait(&self, file: &File) -> io::Result<()> {
        let waited = file.sync_data();
        if waited.is_err() {
            // The kernel tells a failed write once, and takes the pages for clean afterwards (fsync(2)): only a new file is sure.
            self.book().distrust();
        }
        waited
    }
}

impl Others {
    /// What can be promised beside them and to one who has `own` bytes to take, with `free` bytes on the disk now. Never too much: what
    /// was free at the look stands for bytes that the others have given back to the disk since.
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
