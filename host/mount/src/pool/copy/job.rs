//! A copy to be made, the reasons why one fails, and what copies of images and of trees have in common.

use crate::freeze::Freezer;
use crate::pool::copy_request::{CopyRequest, Pair};
use crate::pool::directory::file_type;
use crate::pool::handle::Pool;
use crate::pool::ledger::{Inode, Origin, Record};
use crate::pool::{group_move, promise};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::sync::Arc;
use wasmount_core::mounter::MountError;

/// Maximum depth of a tree that is copied: two descriptors are open for each level, and 1024 are the usual limit of a process.
pub(in crate::pool) const DEPTH: usize = 200;

/// A copy to be made.
#[derive(Debug)]
pub(in crate::pool) struct Job {
    pub(in crate::pool) pool: Arc<Pool>,
    pub(in crate::pool) request: CopyRequest,
    /// Whether data may be copied if the file system cannot share blocks.
    pub(in crate::pool) full_copies: bool,
    pub(in crate::pool) freezer: Arc<Freezer>,
}

/// Why a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyError {
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

/// The record of a target that is a copy of its source, after it was made durable. `None`: the target does not exist.
pub(super) fn found(
    pool: &Pool,
    pair: &Pair,
    kind: FileType,
) -> Result<Option<Record>, MountError> {
    let Pair { source, target } = pair;
    let parent = pool.parent(target)?;
    let Some(status) = pool.look(&parent, target)? else {
        return Ok(None);
    };
    let record = pool.ledger.get(Inode::of(&status));
    let Some(origin) = &record.origin else {
        return Err(target.otherwise_there("it is not a copy"));
    };
    // A missing source is known by its path only; a new one at the same path is another.
    let from = match pool.parent_if_there(source)? {
        Some(parent) => pool.look(&parent, source)?,
        None => None,
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

/// Records the origin of a copy.
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

/// The error of a copy, with its paths.
pub(super) fn failed(pair: &Pair, error: CopyError) -> MountError {
    let Pair { source, target } = pair;
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
