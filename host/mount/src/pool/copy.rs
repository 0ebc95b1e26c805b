//! What a copy does: images or a tree, made aside and moved to their places when they are whole.
//!
//! Each copy is of one moment. A killed one leaves nothing at the target; what it left aside is cleared at the next start. How images are copied is
//! `copy_images`', how bytes are `copy_data`'s and `copy_tree`'s, who waits for whom `copies`'.

use crate::freeze::Freezer;
use crate::pool::copy_data::CopyError;
use crate::pool::copy_images;
use crate::pool::copy_tree;
use crate::pool::directory::{self, file_type};
use crate::pool::ledger::{Inode, Origin, Record};
use crate::pool::open::Pool;
use crate::pool::place::Place;
use crate::pool::wanted::{Pair, Wanted};
use crate::pool::{group_move, promise, trash};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

/// How often a tree is copied until nothing changes meanwhile. A pod that writes once in a while is met by one of them, one that always writes
/// by all.
const TREE_ATTEMPTS: usize = 4;
/// A tree is copied again only if that took no longer. 5 s: all attempts then end before a caller's patience (`copies::WAIT`), and what takes
/// longer would most likely meet the next write, too.
const QUICK: Duration = Duration::from_secs(5);

/// How data may be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    /// Blocks are shared, or the call is refused.
    Shared,
    /// Blocks are shared where the file system can, else copied.
    SharedOrFull,
}

/// A copy to be made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) pool: Arc<Pool>,
    pub(super) wanted: Wanted,
    pub(super) copying: Copying,
    pub(super) freezer: Arc<Freezer>,
}

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

/// What is known of a target that is a copy of its source, durably there. `None`: nothing has the name.
pub(super) fn found(
    pool: &Pool,
    pair: &Pair,
    kind: FileType,
) -> Result<Option<Record>, MountError> {
    let Pair { source, target } = pair;
    let parent = pool.parent(target)?;
    let Some(status) = pool.look(parent.as_fd(), target)? else {
        return Ok(None);
    };
    let record = pool.ledger.get(Inode::of(&status));
    let Some(origin) = &record.origin else {
        return Err(target.otherwise_there("it is not a copy"));
    };
    // A source that is gone is known by its path only; one that was made anew there is another.
    let from = match pool.parent(source) {
        Ok(parent) => pool.look(parent.as_fd(), source)?,
        Err(MountError::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    let is_same = match from {
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

/// Notes of a copy what it is one of.
pub(super) fn remember(
    pool: &Pool,
    pair: &Pair,
    own: Inode,
    source: Inode,
    more: impl FnOnce(&mut Record),
) -> Result<(), MountError> {
    let path = pair.source.path.as_str().to_owned();
    promise::set(pool, &pair.target, own, |record| {
        record.origin = Some(Origin {
            path,
            inode: source,
        });
        more(record);
    })
}

fn discard_unfinished(pool: &Pool, name: &str) {
    let aside = pool.unfinished.as_fd();
    let deleted = trash::discard(pool, aside, name).and_then(|name| trash::delete(pool, name));
    if let Err(errno) = deleted
        && errno != Errno::NOENT
    {
        tracing::warn!(%errno, "an unfinished copy could not be deleted; the next start tries again");
    }
}

/// The error of a copy, in words of its places.
pub(super) fn failed(source: &Place, target: &Place, error: CopyError) -> MountError {
    match error {
        CopyError::CannotShare => MountError::Unsupported {
            what: format!("a copy of {source} that shares its blocks"),
            reason: "the file system cannot; use xfs or btrfs, or grant `fullCopies` to the pool for copies of one volume"
                .to_owned(),
        },
        CopyError::Mount => source.in_use("there is a mount in it"),
        CopyError::TooDeep => MountError::Unsupported {
            what: format!("a copy of {source}"),
            reason: format!("it is more than {} directories deep", copy_tree::DEPTH),
        },
        CopyError::Written => source.in_use(
            "it is written to all the time, so that no copy would be of one moment; unstage its volume and try again, or have an image for it in a pool on xfs or btrfs, which is copied while it is in use",
        ),
        CopyError::Read(errno) => source.failed("read", errno),
        CopyError::Write(errno) => target.failed("write", errno),
    }
}
