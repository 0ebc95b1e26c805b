//! The ledger of a pool: bytes promised to each tree and image, the project that enforces them, and what a copy was copied from. A tenant can write
//! everything in its volume (extended attributes too), so it lies in the host's own folder; a killed host must not leave a promise that nothing uses,
//! so a record belongs to an inode and is told apart by its birth.
//!
//! No change costs more when there are more records. It knows neither paths' rules nor quotas; the file is `ledger/lines`'s.

mod lines;

use lines::{Lines, SPARE_LINES};
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The records in memory, and their sums, kept up with each change: only a look goes through all records.
#[derive(Debug)]
struct Book {
    lines: Lines,
    /// By number.
    records: HashMap<u64, Known>,
    /// Hints of paths, each with the number of who has it.
    paths: BTreeSet<(String, u64)>,
    promised: u64,
    /// What was not taken of the promises at the last look.
    outstanding: u64,
    /// Free bytes of the disk at the last look, and when.
    look: Option<(u64, Instant)>,
    last_project: u32,
}

#[derive(Debug)]
struct Known {
    inode: Inode,
    record: Record,
    /// At the last look, in bytes.
    taken: u64,
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
        let (lines, records) = Lines::open(folder)?;
        let mut book = Book {
            lines,
            records: HashMap::new(),
            paths: BTreeSet::new(),
            promised: 0,
            outstanding: 0,
            look: None,
            last_project: 0,
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
        let book = self.book();
        let all = book.records.values();
        all.map(|known| (known.inode, known.record.clone()))
            .collect()
    }

    /// Highest project that was ever in use; 0 if none was.
    pub(super) fn last_project(&self) -> u32 {
        self.book().last_project
    }

    /// What is known of an inode.
    pub(super) fn get(&self, inode: Inode) -> Record {
        self.book().get(inode)
    }

    /// A look found how many bytes of its promise each has taken, and then how many are free. Who came since has taken nothing; who is gone is
    /// gone. Bytes that are promised and not taken.
    pub(super) fn looked(&self, taken: &[(Inode, u64)], free: u64) -> u64 {
        let book = &mut *self.book();
        for (inode, taken) in taken {
            let known = book.records.get_mut(&inode.number);
            if let Some(known) = known.filter(|known| known.inode == *inode) {
                book.outstanding = book.outstanding.saturating_sub(known.outstanding());
                known.taken = *taken;
                book.outstanding = book.outstanding.saturating_add(known.outstanding());
            }
        }
        book.look = Some((free, Instant::now()));
        book.outstanding
    }

    /// Something was renamed: the hints of what is there, or in it, follow. Durable after [`Ledger::sync`].
    pub(super) fn moved(&self, from: &str, to: &str) -> io::Result<()> {
        let mut book = self.book();
        // What lies in it, and it: what only begins like it is passed over.
        let inside = format!("{from}/");
        let in_it = book.paths.range((inside.clone(), 0)..);
        let in_it = in_it.take_while(|(path, _)| path.starts_with(&inside));
        let itself = (from.to_owned(), 0)..=(from.to_owned(), u64::MAX);
        let itself = book.paths.range(itself);
        let moved: Vec<_> = itself.chain(in_it).map(|(_, number)| *number).collect();
        for number in moved {
            let Some(Known { inode, record, .. }) = book.records.get(&number) else {
                continue;
            };
            let (inode, mut record) = (*inode, record.clone());
            let rest = record.path.as_deref().and_then(|it| it.strip_prefix(from));
            record.path = rest.map(|rest| format!("{to}{rest}"));
            book.set(inode, record)?;
        }
        Ok(())
    }

    /// Changes what is known of an inode, if `change` allows it in view of all others and of the old record, which is returned. Durable after
    /// [`Ledger::sync`].
    pub(super) fn update(
        &self,
        inode: Inode,
        change: impl FnOnce(Others, &mut Record) -> bool,
    ) -> io::Result<Option<Record>> {
        let mut book = self.book();
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
        let wanted = self.book().lines.written;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= wanted {
            return Ok(());
        }
        let (reached, file) = {
            let Book { lines, records, .. } = &mut *self.book();
            let records = records.values();
            let records = records.map(|known| (&known.inode, &known.record));
            if lines.shorten(&self.folder, records, SPARE_LINES)? {
                *synced = lines.written;
                return Ok(());
            }
            (lines.written, Arc::clone(&lines.file))
        };
        if let Err(error) = file.sync_data() {
            // The kernel tells a failed write once, and takes the pages for clean afterwards (fsync(2)): only a new file is sure.
            self.book().lines.is_distrusted = true;
            return Err(error);
        }
        *synced = reached;
        Ok(())
    }
}

impl Known {
    fn outstanding(&self) -> u64 {
        self.record.promised.saturating_sub(self.taken)
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
        let look = self.look.filter(|(_, at)| at.elapsed() < LOOK_HOLDS);
        Others {
            promised: self.promised.saturating_sub(promised),
            seen: look.map(|(free, _)| (self.outstanding.saturating_sub(outstanding), free)),
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

    /// Also the promise of a file that had this number before.
    fn forget(&mut self, number: u64) -> io::Result<Option<Record>> {
        let Some(known) = self.records.get(&number) else {
            return Ok(None);
        };
        self.lines.write(known.inode, None)?;
        Ok(self.remove(number).map(|known| known.record))
    }

    fn insert(&mut self, inode: Inode, record: Record) {
        let before = self.remove(inode.number);
        let taken = before
            .filter(|before| before.inode == inode)
            .map_or(0, |before| before.taken);
        let known = Known {
            inode,
            record,
            taken,
        };
        self.promised = self.promised.saturating_add(known.record.promised);
        self.outstanding = self.outstanding.saturating_add(known.outstanding());
        self.last_project = self.last_project.max(known.record.project.unwrap_or(0));
        if let Some(path) = &known.record.path {
            self.paths.insert((path.clone(), inode.number));
        }
        self.records.insert(inode.number, known);
    }

    fn remove(&mut self, number: u64) -> Option<Known> {
        let known = self.records.remove(&number)?;
        self.promised = self.promised.saturating_sub(known.record.promised);
        self.outstanding = self.outstanding.saturating_sub(known.outstanding());
        if let Some(path) = known.record.path.clone() {
            self.paths.remove(&(path, number));
        }
        Some(known)
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
