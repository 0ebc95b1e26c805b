//! What a copy does: images or a tree, made aside and moved to their places when they are whole.
//!
//! Each copy is of one moment. A killed one leaves nothing at the target; what it left aside is cleared at the next start. How images are copied is
//! `copy_images`', how bytes are `copy_data`'s and `copy_tree`'s, who waits for whom `copies`'.

use crate::pool::copy_images;
use crate::pool::copy_job::{Job, discard_unfinished, failed, found, remember};
use crate::pool::copy_tree;
use crate::pool::copying::CopyError;
use crate::pool::directory;
use crate::pool::ledger::Inode;
use crate::pool::wanted::{Pair, Wanted};
use crate::pool::{group_move, promise};
use rustix::fs::{FileType, Mode};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

/// How often a tree is copied until nothing changes meanwhile. A pod that writes once in a while is met by one of them, one that always writes
/// by all.
const TREE_ATTEMPTS: usize = 4;
/// A tree is copied again only if that took no longer. 5 s: all attempts then end before a caller's patience (`copies::WAIT`), and what takes
/// longer would most likely meet the next write, too.
const QUICK: Duration = Duration::from_secs(5);

impl Job {
    /// Copies, for as long as it takes. The target is such a copy already: done.
    pub(super) fn run(&self) -> Result<(), MountError> {
        if self.is_done()? {
            return Ok(());
        }
        match &self.wanted {
            Wanted::Image(pair) => copy_images::copy(self, std::slice::from_ref(pair)),
            Wanted::Images(pairs) => copy_images::copy(self, pairs),
            Wanted::Directory(pair) => self.directory(pair),
        }
    }

    /// Whether the targets are copies of their sources; durably, if so. Something else there is an error.
    pub(super) fn is_done(&self) -> Result<bool, MountError> {
        let _held = group_move::hold(&self.pool)?;
        match &self.wanted {
            Wanted::Image(pair) => Ok(found(&self.pool, pair, FileType::RegularFile)?.is_some()),
            Wanted::Images(pairs) => copy_images::are_done(&self.pool, pairs),
            Wanted::Directory(pair) => {
                let Pair { source, target } = pair;
                if target.path.is_in(source.path.as_str()) {
                    return Err(target.invalid("it is the source of the copy, or lies in it"));
                }
                Ok(found(&self.pool, pair, FileType::Directory)?.is_some())
            }
        }
    }

    /// The copy is promised nothing: `set-quota` says what it may use.
    fn directory(&self, pair: &Pair) -> Result<(), MountError> {
        let Pair { source, target } = pair;
        let pool = &self.pool;
        let from = directory::open(pool, source)?;
        let (inode, _) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
        let (name, to, shares) = self.tree(pair, &from)?;
        let finish = || {
            let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
            promise::inherit(target, &pool.parent(target)?, &to)?;
            remember(pool, pair, own, inode, |record| {
                record.shares_blocks = shares
            })?;
            // Once for all: a sync of each of 10,000 files takes seconds.
            rustix::fs::syncfs(&to).map_err(|errno| target.failed("sync", errno))?;
            pool.finish(&name, target)
        };
        let finished = finish();
        if finished.is_err() {
            discard_unfinished(pool, &name);
        }
        finished
    }

    /// Copies a tree aside, again if it changed meanwhile. Its name there, and whether it shares blocks.
    fn tree(&self, pair: &Pair, from: &OwnedFd) -> Result<(String, OwnedFd, bool), MountError> {
        let Pair { source, target } = pair;
        let aside = &self.pool.unfinished;
        let mut attempts = 1;
        loop {
            let begun = Instant::now();
            let name = self.pool.fresh_name();
            rustix::fs::mkdirat(aside, &name, Mode::RWXU)
                .map_err(|errno| target.failed("make", errno))?;
            match copy_tree::tree(from.as_fd(), aside, &name, self.copying) {
                Ok((to, shares)) => return Ok((name, to, shares)),
                Err(error) => {
                    discard_unfinished(&self.pool, &name);
                    let is_quick = begun.elapsed() <= QUICK;
                    if error != CopyError::Written || !is_quick || attempts == TREE_ATTEMPTS {
                        return Err(failed(source, target, error));
                    }
                    attempts += 1;
                }
            }
        }
    }
}
