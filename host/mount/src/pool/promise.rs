//! Promises: how much space a pool can still promise, how much each tree or image may use, and the project quota that enforces it if the file system
//! supports it.
//!
//! The available space is the free space minus the unused part of the promises. A promise beyond that is refused, so a created volume can be filled,
//! whatever else the disk contains.

use crate::confine::open_confined;
use crate::failure::kernel;
use crate::pool::directory;
use crate::pool::handle::{DIRECTORY, Pool, ledger_failed};
use crate::pool::ledger::{Inode, Record};
use crate::pool::place::Place;
use crate::walk::{Next, if_there, walk};
use rustix::fs::{AtFlags, FileType, OFlags, statat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use wasmount_core::mounter::MountError;
use wasmount_core::pool::PoolUsage;
use wasmount_sys::quota;

/// The unit of `stx_blocks`, in bytes, whatever the block size of the file system is (statx(2)).
const BLOCK_BYTES: u64 = 512;
/// The first project that is tried: far above the small numbers that administrators assign by hand in /etc/projid.
const FIRST_PROJECT: u32 = 1 << 24;
/// How many used projects are skipped before giving up. Others may use the same range on the same file system.
const PROJECT_ATTEMPTS: usize = 4096;

/// One lock for each device, by major and minor number: a device that hangs does not block others.
type Locks = HashMap<(u32, u32), Arc<Mutex<()>>>;
/// Projects belong to a file system, which may contain several pools: only one of them chooses a project at a time.
static CHOOSING: LazyLock<Mutex<Locks>> = LazyLock::new(Mutex::default);

/// Space of the pool. It measures each volume with a promise: the cost of an exact number grows with the number of volumes.
pub(super) fn capacity(pool: &Pool, name: &str) -> Result<PoolUsage, MountError> {
    let (total, available) = look(pool)
        .map_err(|errno| kernel("read the free space", format!("pool `{name}`"), errno))?;
    Ok(PoolUsage {
        total_bytes: total,
        available_bytes: available,
    })
}

/// Measures the used part of each promise, and stores it in the ledger. Returns the size of the disk and how much can be promised.
fn look(pool: &Pool) -> Result<(u64, u64), Errno> {
    // The order matters: data written in between is counted twice and not missed.
    let taken: Vec<_> = pool
        .ledger
        .all()
        .iter()
        .map(|(inode, record)| (*inode, taken(pool, *inode, record)))
        .collect();
    let (total, free) = disk(pool)?;
    Ok((total, free.saturating_sub(pool.ledger.looked(&taken, free))))
}

/// Bytes of a promise that its holder may still use on the disk.
fn outstanding(pool: &Pool, inode: Inode, record: &Record) -> u64 {
    if record.promised == 0 {
        return 0;
    }
    record.promised.saturating_sub(taken(pool, inode, record))
}

/// Bytes of a promise that its holder has certainly used. They are not free any more and must not be reserved a second time.
///
/// An estimate is always too low and never too high: a reliable promise is worth more than the last byte of a disk. So nothing counts as used for a
/// tree without a quota (its bytes are subtracted from the pool twice, as used and as promised), and for a copy that shares blocks (overwriting them
/// allocates new ones).
fn taken(pool: &Pool, inode: Inode, record: &Record) -> u64 {
    known_taken(pool, inode, record).unwrap_or(0)
}

fn known_taken(pool: &Pool, inode: Inode, record: &Record) -> Option<u64> {
    if record.shares_blocks {
        return None;
    }
    if let Some(project) = record.project {
        let usage = quota::project_usage(&pool.root, project).ok()?;
        return Some(usage.used_bytes);
    }
    let path = record.path.as_deref()?;
    // Only the name is opened, so a pipe or a device has no side effect.
    let file = open_confined(&pool.root, path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
    let (found, status) = Inode::of_fd(&file).ok()?;
    let is_it = found == inode && directory::file_type(&status) == FileType::RegularFile;
    is_it.then(|| status.stx_blocks.saturating_mul(BLOCK_BYTES))
}

/// Promises an image its size, and records its path. Returns the earlier record, for [`restore`]. Durable after the ledger's sync.
pub(super) fn promise_image(
    pool: &Pool,
    place: &Place,
    inode: Inode,
    size: u64,
) -> Result<Record, MountError> {
    promise(pool, place, inode, size, |record| {
        record.path = Some(place.path.as_str().to_owned());
    })
}

/// Sets the promise of an inode to `bytes`, and makes another change to its record.
fn promise(
    pool: &Pool,
    place: &Place,
    inode: Inode,
    bytes: u64,
    change: impl Fn(&mut Record),
) -> Result<Record, MountError> {
    match try_promise(pool, place, inode, bytes, &change) {
        // First by the last measurement, or as if nothing had been used: otherwise each new volume would measure all others.
        Err(MountError::NoSpace { .. }) => {
            look(pool).map_err(|errno| place.failed("read the free space", errno))?;
            try_promise(pool, place, inode, bytes, &change)
        }
        promised => promised,
    }
}

fn try_promise(
    pool: &Pool,
    place: &Place,
    inode: Inode,
    bytes: u64,
    change: impl Fn(&mut Record),
) -> Result<Record, MountError> {
    let (mut more, mut available, mut failed) = (0, 0, None);
    let promised = pool.ledger.update(inode, |others, record| {
        let before = outstanding(pool, inode, record);
        record.promised = bytes;
        change(record);
        more = outstanding(pool, inode, record).saturating_sub(before);
        if more == 0 {
            return true;
        }
        // Read after the unused part of the promises: data written in between is counted twice and not missed.
        match disk(pool) {
            Ok((_, free)) => available = others.leave(free, before),
            Err(errno) => failed = Some(errno),
        }
        failed.is_none() && more <= available
    });
    if let Some(errno) = failed {
        return Err(place.failed("read the free space", errno));
    }
    promised
        .map_err(|error| ledger_failed(place, error))?
        .ok_or_else(|| MountError::NoSpace {
            what: place.to_string(),
            reason: format!("{more} more bytes are wanted, {available} can still be promised"),
        })
}

/// Reverts a change.
pub(super) fn restore(
    pool: &Pool,
    place: &Place,
    inode: Inode,
    before: Record,
) -> Result<(), MountError> {
    set(pool, place, inode, move |record| *record = before)
}

/// Changes a record unconditionally.
pub(super) fn set(
    pool: &Pool,
    place: &Place,
    inode: Inode,
    change: impl FnOnce(&mut Record),
) -> Result<(), MountError> {
    let changed = pool.ledger.update(inode, |_, record| {
        change(record);
        true
    });
    changed
        .map(drop)
        .map_err(|error| ledger_failed(place, error))
}

/// Promises bytes to a tree, or withdraws the promise. Returns whether the file system enforces it.
pub(super) fn set_quota(
    pool: &Pool,
    place: &Place,
    bytes: Option<u64>,
) -> Result<bool, MountError> {
    let tree = directory::open(pool, place)?;
    let (inode, _) = Inode::of_fd(&tree).map_err(|errno| place.failed("stat", errno))?;
    let before = promise(pool, place, inode, bytes.unwrap_or(0), |_| ())?;
    let enforced = enforce(pool, place, &tree, inode, &before, bytes);
    if enforced.is_err() {
        restore(pool, place, inode, before)?;
    }
    pool.sync_ledger(place)?;
    enforced
}

/// Limits the project of a tree. `false`: the file system has no project quota.
fn enforce(
    pool: &Pool,
    place: &Place,
    tree: &OwnedFd,
    inode: Inode,
    before: &Record,
    bytes: Option<u64>,
) -> Result<bool, MountError> {
    let failed = |errno| place.failed("set the project quota", errno);
    let project = match (before.project, bytes) {
        (Some(project), _) => project,
        (None, None) => return Ok(false),
        (None, Some(_)) => match choose_project(pool, place, tree, inode)? {
            Some(project) => project,
            None => return Ok(false),
        },
    };
    quota::set_project_limit(tree, project, bytes.unwrap_or(0)).map_err(failed)?;
    if before.project.is_none() {
        // A copy has content already. The limit is set first, so that no write can exceed it.
        assign(tree, project).map_err(failed)?;
        rustix::fs::syncfs(tree).map_err(failed)?;
    }
    Ok(bytes.is_some())
}

/// Chooses an unused project and records it before it is used.
fn choose_project(
    pool: &Pool,
    place: &Place,
    tree: &OwnedFd,
    inode: Inode,
) -> Result<Option<u32>, MountError> {
    let choosing = {
        let mut choosing = CHOOSING.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            choosing
                .entry((pool.identity.device_major, pool.identity.device_minor))
                .or_default(),
        )
    };
    let _choosing = choosing.lock();
    let first = pool.ledger.last_project().max(FIRST_PROJECT);
    for project in (first..).take(PROJECT_ATTEMPTS) {
        match quota::project_usage(tree, project) {
            Ok(usage) if usage.limit_bytes == 0 && usage.used_bytes == 0 => {}
            // It never had a quota.
            Err(Errno::NOENT) => {}
            Ok(_) => continue,
            // There is no project quota, or this host may not use it.
            Err(_) => return Ok(None),
        }
        // The limit marks it as used, so that another pool on this file system skips it.
        quota::set_project_limit(tree, project, 1)
            .map_err(|errno| place.failed("take a project", errno))?;
        set(pool, place, inode, |record| record.project = Some(project))?;
        return Ok(Some(project));
    }
    Ok(None)
}

/// Puts an unfinished tree or image into the project of its future parent directory, as if it had been made there: the kernel does not move a file
/// into another project (`EXDEV`).
pub(super) fn inherit(place: &Place, parent: &OwnedFd, made: &OwnedFd) -> Result<(), MountError> {
    let project = match quota::project(parent) {
        // The file system has no projects, or they are not enforced.
        Err(_) | Ok(0) => return Ok(()),
        Ok(project) => project,
    };
    let inherited = match Inode::of_fd(made) {
        Ok((_, status)) if directory::file_type(&status) == FileType::Directory => {
            assign(made, project)
        }
        Ok(_) => quota::set_project(made, project, false),
        Err(errno) => Err(errno),
    };
    inherited.map_err(|errno| place.failed("set the project", errno))
}

/// Puts a tree into a project. Directories pass it on to new entries.
fn assign(tree: impl AsFd, project: u32) -> Result<(), Errno> {
    quota::set_project(&tree, project, true)?;
    let put = |directory: BorrowedFd<'_>, name: &CStr| {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let Some(status) = if_there(statat(directory, name, flags))? else {
            return Ok(Next::Pass);
        };
        let (flags, is_directory) = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => (DIRECTORY, true),
            FileType::RegularFile => (OFlags::RDONLY | OFlags::NONBLOCK, false),
            // Links and special files have no content to count, and cannot be opened for this call.
            _ => return Ok(Next::Pass),
        };
        let Some(inner) = if_there(open_confined(directory, name, flags))? else {
            return Ok(Next::Pass);
        };
        quota::set_project(&inner, project, is_directory)?;
        Ok(if is_directory {
            Next::Enter
        } else {
            Next::Pass
        })
    };
    walk(tree, put).map_err(|stopped| stopped.errno)
}

/// Size and free bytes for unprivileged users.
fn disk(pool: &Pool) -> Result<(u64, u64), Errno> {
    let disk = rustix::fs::fstatvfs(&pool.root)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok((bytes(disk.f_blocks), bytes(disk.f_bavail)))
}
