//! A copy to be made, and what copies of images and of trees have in common.

use crate::freeze::Freezer;
use crate::pool::copying::{CopyError, Copying, DEPTH};
use crate::pool::directory::file_type;
use crate::pool::handle::Pool;
use crate::pool::ledger::{Inode, Origin, Record};
use crate::pool::place::Place;
use crate::pool::wanted::{Pair, Wanted};
use crate::pool::{group_move, promise, trash};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;
use wasmount_core::mounter::MountError;

/// A copy to be made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) pool: Arc<Pool>,
    pub(super) wanted: Wanted,
    pub(super) copying: Copying,
    pub(super) freezer: Arc<Freezer>,
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

pub(super) fn discard_unfinished(pool: &Pool, name: &str) {
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
            reason: format!("it is more than {} directories deep", DEPTH),
        },
        CopyError::Written => source.in_use(
            "it is written to all the time, so that no copy would be of one moment; unstage its volume and try again, or have an image for it in a pool on xfs or btrfs, which is copied while it is in use",
        ),
        CopyError::Read(errno) => source.failed("read", errno),
        CopyError::Write(errno) => target.failed("write", errno),
    }
}
