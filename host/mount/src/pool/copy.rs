//! Makes copies of images or of a tree, under temporary names, and moves them to their targets when they are complete. Each copy is consistent at one
//! moment. A killed copy leaves nothing at the target; its temporary files are cleared at the next start.

mod data;
mod images;
pub(super) mod job;
mod tree;
mod unchanged;

use crate::pool::copy_request::{CopyRequest, Pair};
use crate::pool::handle::{Pool, fresh_name, make_folder};
use crate::pool::ledger::Inode;
use crate::pool::{directory, group_move, promise, trash};
use job::{CopyError, failed, found, remember};
use rustix::fs::FileType;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

pub(super) use job::Job;

/// How often a tree is copied until nothing changes meanwhile. A pod that writes occasionally disturbs one attempt; one that always writes disturbs
/// all of them.
const TREE_ATTEMPTS: usize = 4;
/// A tree is copied again only if the attempt took no longer than this. 5 s: all attempts then end before a caller stops waiting (`copies::WAIT`),
/// and a slower attempt would most likely be disturbed by the next write, too.
const QUICK: Duration = Duration::from_secs(5);

/// A temporary directory for a tree that is being copied, and its auxiliary data. Deleted when it is dropped.
struct Folder<'p> {
    pool: &'p Pool,
    name: String,
}

impl Job {
    /// Makes the copy, without a deadline. If the target is already this copy, it is a success.
    pub(super) fn run(&self) -> Result<(), MountError> {
        if self.is_done()? {
            return Ok(());
        }
        match &self.request {
            CopyRequest::Directory(pair) => self.directory(pair),
            request => images::copy(self, request.pairs()),
        }
    }

    /// Whether the targets are copies of their sources; if so, they are made durable. Any other content of a target is an error.
    pub(super) fn is_done(&self) -> Result<bool, MountError> {
        let _held = group_move::hold(&self.pool)?;
        match &self.request {
            CopyRequest::Directory(pair) => {
                let Pair { source, target } = pair;
                if target.path.is_in(source.path.as_str()) {
                    return Err(target.invalid("it is the source of the copy, or lies in it"));
                }
                Ok(found(&self.pool, pair, FileType::Directory)?.is_some())
            }
            request => images::are_done(&self.pool, request.pairs()),
        }
    }

    /// Copies a tree. The copy has no promised size: `set-quota` sets what it may use.
    fn directory(&self, pair: &Pair) -> Result<(), MountError> {
        let Pair { source, target } = pair;
        let pool = &self.pool;
        let from = directory::open(pool, source)?;
        let (inode, _) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
        let mut attempts = 1;
        // Copied again if it changed meanwhile.
        let (folder, to, shares) = loop {
            let begun = Instant::now();
            let name = fresh_name();
            let folder = make_folder(&pool.unfinished, &name)
                .map_err(|errno| target.failed("make", errno))?;
            let guard = Folder { pool, name };
            match tree::copy(from.as_fd(), &folder, self.full_copies) {
                Ok((to, shares)) => break (guard, to, shares),
                Err(CopyError::Written) if begun.elapsed() <= QUICK && attempts < TREE_ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(failed(pair, error)),
            }
        };
        let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
        promise::inherit(target, &pool.parent(target)?, &to)?;
        remember(pool, pair, own, inode, |record| {
            record.shares_blocks = shares
        })?;
        // Synced once for the whole file system: a sync of each of 10,000 files takes seconds.
        rustix::fs::syncfs(&to).map_err(|errno| target.failed("sync", errno))?;
        pool.finish(&format!("{}/{}", folder.name, tree::TREE_NAME), target)
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        let (pool, aside) = (self.pool, self.pool.unfinished.as_fd());
        let discarded = trash::discard(pool, aside, &self.name);
        if let Err(errno) = discarded.and_then(|name| trash::delete(pool, name)) {
            tracing::warn!(%errno, "an unfinished copy could not be deleted; the next start tries again");
        }
    }
}
