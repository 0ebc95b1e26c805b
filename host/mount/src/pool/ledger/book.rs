//! The records in memory, and their sums, kept up with each change: nothing here goes through all records but a look at all of them.

use super::lines::{Lines, SPARE_LINES};
use super::{Inode, Others, Record};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Book {
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

impl Known {
    fn outstanding(&self) -> u64 {
        self.record.promised.saturating_sub(self.taken)
    }
}

impl Book {
    pub(super) fn open(folder: &OwnedFd) -> io::Result<Self> {
        let (lines, records) = Lines::open(folder)?;
        let mut book = Self {
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
        Ok(book)
    }

    pub(super) fn written(&self) -> u64 {
        self.lines.written()
    }

    pub(super) fn file(&self) -> Arc<File> {
        self.lines.file()
    }

    pub(super) fn distrust(&mut self) {
        self.lines.distrust();
    }

    #[cfg(test)]
    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    pub(super) fn last_project(&self) -> u32 {
        self.last_project
    }

    pub(super) fn all(&self) -> Vec<(Inode, Record)> {
        let all = self.records.values();
        all.map(|known| (known.inode, known.record.clone()))
            .collect()
    }

    pub(super) fn get(&self, inode: Inode) -> Record {
        match self.records.get(&inode.number) {
            Some(known) if known.inode == inode => known.record.clone(),
            _ => Record::default(),
        }
    }

    pub(super) fn others(&self, inode: Inode, holds: Duration) -> Others {
        let own = self.records.get(&inode.number);
        let promised = own.map_or(0, |known| known.record.promised);
        let outstanding = own.map_or(0, Known::outstanding);
        let look = self.look.filter(|(_, at)| at.elapsed() < holds);
        Others {
            promised: self.promised.saturating_sub(promised),
            seen: look.map(|(free, _)| (self.outstanding.saturating_sub(outstanding), free)),
        }
    }

    /// Takes note of a look. Who came since has taken nothing; who is gone is gone.
    pub(super) fn looked(&mut self, taken: &[(Inode, u64)], free: u64, at: Instant) -> u64 {
        for (inode, taken) in taken {
            let known = self.records.get_mut(&inode.number);
            if let Some(known) = known.filter(|known| known.inode == *inode) {
                self.outstanding = self.outstanding.saturating_sub(known.outstanding());
                known.taken = *taken;
                self.outstanding = self.outstanding.saturating_add(known.outstanding());
            }
        }
        self.look = Some((free, at));
        self.outstanding
    }

    pub(super) fn moved(&mut self, from: &str, to: &str) -> io::Result<()> {
        // What lies in it, and it: what only begins like it is passed over.
        let inside = format!("{from}/");
        let in_it = self.paths.range((inside.clone(), 0)..);
        let in_it = in_it.take_while(|(path, _)| path.starts_with(&inside));
        let itself = self
            .paths
            .range((from.to_owned(), 0)..=(from.to_owned(), u64::MAX));
        let moved: Vec<_> = itself.chain(in_it).map(|(_, number)| *number).collect();
        for number in moved {
            let Some(Known { inode, record, .. }) = self.records.get(&number) else {
                continue;
            };
            let rest = record
                .path
                .as_deref()
                .and_then(|path| path.strip_prefix(from));
            let inode = *inode;
            let record = Record {
                path: rest.map(|rest| format!("{to}{rest}")),
                ..record.clone()
            };
            self.set(inode, record)?;
        }
        Ok(())
    }

    pub(super) fn set(&mut self, inode: Inode, record: Record) -> io::Result<()> {
        if record == Record::default() {
            return self.forget(inode.number).map(drop);
        }
        self.lines.promise(inode, &record)?;
        self.insert(inode, record);
        Ok(())
    }

    /// Also the promise of a file that had this number before.
    pub(super) fn forget(&mut self, number: u64) -> io::Result<Option<Record>> {
        match self.records.get(&number) {
            Some(known) => self.lines.forget(known.inode)?,
            None => return Ok(None),
        }
        Ok(self.remove(number).map(|known| known.record))
    }

    /// Writes the file anew if it has become long, or cannot be trusted. Everything is on stable storage if it did; one that cannot be trusted
    /// has to be.
    pub(super) fn shorten(&mut self, folder: &OwnedFd) -> io::Result<bool> {
        if !self.lines.is_spent(self.records.len(), SPARE_LINES) {
            return Ok(false);
        }
        let records = self.records.values();
        let records = records.map(|known| (&known.inode, &known.record));
        match self.lines.rewrite(folder, records) {
            Ok(()) => Ok(true),
            Err(error) if self.lines.is_distrusted() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a pool's ledger could not be written anew; the old one goes on");
                Ok(false)
            }
        }
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
