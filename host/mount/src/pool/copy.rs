//! Makes copies of images or of a tree, under temporary names, and moves them to their targets when they are complete. Each copy is consistent at one
//! moment. A killed copy leaves nothing at the target; its temporary files are cleared at the next start.

mod data;
mod images;
mod tree;
mod unchanged;

use crate::freeze::Freezer;
use crate::pool::copies::{CopyRequest, Pair};
use crate::pool::directory::file_type;
use crate::pool::handle::{Pool, fresh_name, make_folder, status_at};
use crate::pool::ledger::{Inode, Origin, Record};
use crate::pool::promise::{self, Holder};
use crate::pool::{directory, group_move, trash};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

/// Maximum depth of a tree that is copied: two descriptors are open for each level, and 1024 are the usual limit of a process.
pub(super) const DEPTH: usize = 200;
/// How often a tree is copied until nothing changes meanwhile. A pod that writes occasionally disturbs one attempt; one that always writes disturbs
/// all of them.
const TREE_ATTEMPTS: usize = 4;
/// A tree is copied again only if the attempt took no longer than this. 5 s: all attempts then end before a caller stops waiting (`copies::WAIT`),
/// and a slower attempt would most likely be disturbed by the next write, too.
const QUICK: Duration = Duration::from_secs(5);

/// A copy to be made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) pool: Arc<Pool>,
    pub(super) request: CopyRequest,
    /// Whether data may be copied if the file system cannot share blocks.
    pub(super) full_copies: bool,
    pub(super) freezer: Arc<Freezer>,
}

/// Why a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyError {
    /// The file system cannot share blocks, and full copies are not granted.
    CannotShare,
    /// Another mount lies in the source.
    Mount,
    /// The source is deeper than [`DEPTH`].
    TooDeep,
    /// The source was written to during a copy that must be consistent at one moment.
    Written,
    Read(Errno),
    Write(Errno),
}

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
        let copy = Holder {
            pool,
            place: target,
            inode: own,
        };
        remember(copy, pair, inode, |record| record.shares_blocks = shares)?;
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

/// The record of a target that is a copy of its source, after it was made durable. `None`: the target does not exist.
fn found(pool: &Pool, pair: &Pair, kind: FileType) -> Result<Option<Record>, MountError> {
    let Pair { source, target } = pair;
    let parent = pool.parent(target)?;
    let Some(status) = pool.status(&parent, target)? else {
        return Ok(None);
    };
    let record = pool.ledger.get(Inode::of(&status));
    let Some(origin) = &record.origin else {
        return Err(target.otherwise_there("it is not a copy"));
    };
    // A missing source is known by its path only; a new one at the same path is another.
    let is_same = match status_at(&pool.root, source)? {
        Some(from) => Inode::of(&from) == origin.inode,
        None => source.path.as_str() == origin.path,
    };
    if !is_same || file_type(&status) != kind {
        return Err(target.otherwise_there(format!("it is not a copy of {source}")));
    }
    // An earlier call may have been killed before the sync.
    pool.sync_parent(&parent, target)?;
    if record.moment.is_some() {
        group_move::sync(pool).map_err(|errno| target.failed("sync", errno))?;
    }
    Ok(Some(record))
}

/// Records the origin of a copy.
fn remember(
    copy: Holder<'_>,
    pair: &Pair,
    source: Inode,
    more: impl FnOnce(&mut Record),
) -> Result<(), MountError> {
    let origin = Origin {
        path: pair.source.path.as_str().to_owned(),
        inode: source,
    };
    copy.set(|record| {
        record.origin = Some(origin);
        more(record);
    })
}

/// The error of a copy, with its paths.
fn failed(pair: &Pair, error: CopyError) -> MountError {
    let Pair { source, target } = pair;
    match error {
        CopyError::CannotShare => MountError::unsupported(
            format!("a copy of {source} that shares its blocks"),
            "the file system cannot; use xfs or btrfs, or grant `fullCopies` to the pool for copies of one volume",
        ),
        CopyError::Mount => source.in_use("there is a mount in it"),
        CopyError::TooDeep => MountError::unsupported(
            format!("a copy of {source}"),
            format!("it is more than {DEPTH} directories deep"),
        ),
        CopyError::Written => source.in_use(
            "it is written to all the time, so that no copy would be of one moment; unstage its volume and try again, or have an image for it in a pool on xfs or btrfs, which is copied while it is in use",
        ),
        CopyError::Read(errno) => source.failed("read", errno),
        CopyError::Write(errno) => target.failed("write", errno),
    }
}
