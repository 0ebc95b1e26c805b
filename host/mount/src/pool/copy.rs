//! Point-in-time copies: images and trees, made aside and moved to their place when they are whole. Apart because a copy may take hours: a
//! repeated call finds it under way, a later one finds it done and told apart from something else that has the name.
//!
//! A killed copy leaves nothing at the target; what it left aside is cleared at the next start. How bytes are copied is `copy_tree`'s.

use crate::pool::copy_tree::{self, CopyError};
use crate::pool::directory::{self, file_type};
use crate::pool::image;
use crate::pool::ledger::{Inode, Origin};
use crate::pool::open::Pool;
use crate::pool::place::Place;
use crate::pool::{promise, trash};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use wasmount_core::mounter::MountError;

/// How data may be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    /// Blocks are shared, or the call is refused.
    Shared,
    /// Blocks are shared where the file system can, else copied.
    SharedOrFull,
}

/// Copies an image. The target is such a copy already: done.
pub(super) fn image(
    pool: &Pool,
    source: &Place,
    target: &Place,
    copying: Copying,
) -> Result<(), MountError> {
    let _claim = pool.claim(source, target)?;
    let parent = pool.parent(target)?;
    if is_done(pool, source, target, parent.as_fd(), FileType::RegularFile)? {
        return pool.sync_parent(&parent, target);
    }
    let from = image::open(pool, source, OFlags::RDONLY)?;
    let (inode, status) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
    let (name, to) = image::unfinished(pool, target)?;
    let copy = || {
        let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
        promise::promise_image(pool, target, own, status.stx_size)?;
        promise::inherit(target, &parent, &to)?;
        let shares = copy_tree::content(from.as_fd(), to.as_fd(), status.stx_size, copying)
            .map_err(|error| failed(source, target, error))?;
        remember(pool, target, own, source, inode, shares)?;
        rustix::fs::fsync(&to).map_err(|errno| target.failed("sync", errno))?;
        pool.finish(&name, parent.as_fd(), target)
    };
    let copied = copy();
    if copied.is_err() {
        image::abandon(pool, &name, &to);
    }
    copied
}

/// Copies a tree. The target is such a copy already: done. The copy is promised nothing: `set-quota` says what it may use.
pub(super) fn directory(
    pool: &Pool,
    source: &Place,
    target: &Place,
    copying: Copying,
) -> Result<(), MountError> {
    if target.path.is_in(source.path.as_str()) {
        return Err(target.invalid("it is the source of the copy, or lies in it"));
    }
    let _claim = pool.claim(source, target)?;
    let parent = pool.parent(target)?;
    if is_done(pool, source, target, parent.as_fd(), FileType::Directory)? {
        return pool.sync_parent(&parent, target);
    }
    let from = directory::open(pool, source)?;
    let (inode, _) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
    let name = pool.fresh_name();
    rustix::fs::mkdirat(&pool.unfinished, &name, Mode::RWXU)
        .map_err(|errno| target.failed("make", errno))?;
    let copy = || {
        let (to, shares) = copy_tree::tree(from.as_fd(), &pool.unfinished, &name, copying)
            .map_err(|error| failed(source, target, error))?;
        let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
        promise::inherit(target, &parent, &to)?;
        remember(pool, target, own, source, inode, shares)?;
        // Once for all: a sync of each of 10,000 files takes seconds.
        rustix::fs::syncfs(&to).map_err(|errno| target.failed("sync", errno))?;
        pool.finish(&name, parent.as_fd(), target)
    };
    let copied = copy();
    if copied.is_err() {
        discard_unfinished(pool, &name);
    }
    copied
}

/// Whether the target is a copy of the source. Something else there is an error.
fn is_done(
    pool: &Pool,
    source: &Place,
    target: &Place,
    parent: BorrowedFd<'_>,
    kind: FileType,
) -> Result<bool, MountError> {
    let Some(status) = pool.look(parent, target)? else {
        return Ok(false);
    };
    let Some(origin) = pool.ledger.get(Inode::of(&status)).origin else {
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
    Ok(true)
}

fn remember(
    pool: &Pool,
    target: &Place,
    own: Inode,
    source: &Place,
    inode: Inode,
    shares_blocks: bool,
) -> Result<(), MountError> {
    let path = source.path.as_str().to_owned();
    promise::set(pool, target, own, |record| {
        record.origin = Some(Origin { path, inode });
        record.shares_blocks = shares_blocks;
    })
}

fn discard_unfinished(pool: &Pool, name: &str) {
    let Ok(number) = rustix::fs::statat(
        &pool.unfinished,
        name,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )
    .map(|status| status.st_ino) else {
        return;
    };
    let discarded = trash::discard(pool, pool.unfinished.as_fd(), name);
    let deleted = discarded.and_then(|discarded: CString| trash::delete(pool, discarded, number));
    if let Err(errno) = deleted {
        tracing::warn!(%errno, "an unfinished copy could not be deleted; the next start tries again");
    }
}

fn failed(source: &Place, target: &Place, error: CopyError) -> MountError {
    match error {
        CopyError::CannotShare => MountError::Unsupported {
            what: format!("a copy of {source} that shares its blocks"),
            reason: "the file system cannot; use xfs or btrfs, or grant `fullCopies` to the pool"
                .to_owned(),
        },
        CopyError::Mount => source.in_use("there is a mount in it"),
        CopyError::TooDeep => MountError::Unsupported {
            what: format!("a copy of {source}"),
            reason: format!("it is more than {} directories deep", copy_tree::DEPTH),
        },
        CopyError::Read(Errno::NOENT | Errno::STALE) => MountError::Kernel {
            operation: "copy".to_owned(),
            object: source.to_string(),
            errno: Errno::AGAIN.raw_os_error(),
            text: "it changed during the copy; try again".to_owned(),
        },
        CopyError::Read(errno) => source.failed("read", errno),
        CopyError::Write(errno) => target.failed("write", errno),
    }
}
