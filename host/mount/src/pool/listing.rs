//! Lists the content of a pool. A guest interprets an existing entry as a finished copy, so a partially moved group is not shown.
//!
//! Names that are not UTF-8 were not made by any caller of this host; they are not listed.

use crate::confine::{RESERVED_NAME, entries};
use crate::failure::kernel;
use crate::pool::directory::{self, file_type};
use crate::pool::group_move;
use crate::pool::handle::{Pool, status_at, status_of};
use crate::pool::ledger::Inode;
use crate::pool::place::Place;
use rustix::fs::{FileType, Statx, StatxAttributes};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{PoolEntry, PoolEntryKind};
use wasmount_sys::quota;

/// Maximum number of entries of one answer: an entry is at most a path of 4 KiB, and a guest call carries 4 MiB.
const LIST_ENTRIES: u32 = 1000;

/// The entry at a place.
pub(super) fn stat(pool: &Pool, place: &Place) -> Result<Option<PoolEntry>, MountError> {
    let _held = group_move::hold(pool)?;
    let status = status_at(&pool.root, place)?;
    Ok(status.map(|status| entry(place.path.as_str().to_owned(), &status, tree_usage(pool))))
}

/// The same in a pool that another process has open. The use of a tree is not known.
pub(super) fn stat_elsewhere(
    root: &OwnedFd,
    place: &Place,
) -> Result<Option<PoolEntry>, MountError> {
    let status = status_at(root, place)?;
    Ok(status.map(|status| entry(place.path.as_str().to_owned(), &status, |_| 0)))
}

/// Direct children of a tree, or of the pool, in name order after `after`.
pub(super) fn list(
    pool: &Pool,
    name: &str,
    place: Option<&Place>,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<PoolEntry>, MountError> {
    let _held = group_move::hold(pool)?;
    let failed = |errno| match place {
        Some(place) => place.failed("list", errno),
        None => kernel("list", format!("pool `{name}`"), errno),
    };
    let opened = place
        .map(|place| directory::open(pool, place))
        .transpose()?;
    let directory = opened.as_ref().unwrap_or(&pool.root).as_fd();
    let limit = usize::try_from(limit.min(LIST_ENTRIES)).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    for name in first_names(directory, place.is_none(), after, limit).map_err(failed)? {
        let Some(status) = status_of(directory, &name).map_err(failed)? else {
            // It was removed meanwhile.
            continue;
        };
        let path = match place {
            Some(place) => format!("{}/{name}", place.path.as_str()),
            None => name,
        };
        entries.push(entry(path, &status, tree_usage(pool)));
    }
    Ok(entries)
}

/// The smallest names after `after`. The memory for one page does not depend on the number of names.
fn first_names(
    directory: BorrowedFd<'_>,
    is_pool: bool,
    after: Option<&str>,
    limit: usize,
) -> Result<BTreeSet<String>, Errno> {
    let mut first = BTreeSet::new();
    for entry in entries(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if (is_pool && name == RESERVED_NAME) || after.is_some_and(|after| name <= after) {
            continue;
        }
        first.insert(name.to_owned());
        if first.len() > limit {
            first.pop_last();
        }
    }
    Ok(first)
}

fn entry(path: String, status: &Statx, tree_usage: impl Fn(&Statx) -> u64) -> PoolEntry {
    let blocks = directory::allocated_bytes(status);
    let other = |description: &str| (PoolEntryKind::Other(description.to_owned()), 0, 0);
    let is_mount = status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    let (kind, size_bytes, allocated_bytes) = match file_type(status) {
        _ if is_mount => other("mount point"),
        FileType::Directory => (PoolEntryKind::Directory, 0, tree_usage(status)),
        FileType::RegularFile => (PoolEntryKind::Image, status.stx_size, blocks),
        FileType::Symlink => other("symbolic link"),
        FileType::Fifo => other("named pipe"),
        FileType::Socket => other("socket"),
        FileType::BlockDevice => other("block device"),
        FileType::CharacterDevice => other("character device"),
        _ => other("something unknown"),
    };
    PoolEntry {
        path,
        kind,
        size_bytes,
        allocated_bytes,
    }
}

/// Known only if a project counts it: otherwise the whole tree would have to be read.
fn tree_usage(pool: &Pool) -> impl Fn(&Statx) -> u64 {
    |status| {
        let project = pool.ledger.get(Inode::of(status)).project;
        let usage = project.and_then(|project| quota::project_usage(&pool.root, project).ok());
        usage.map_or(0, |usage| usage.used_bytes)
    }
}
