//! Promises: how much space a pool can still promise, how much each tree or image may use, and the project quota that enforces it if the file system
//! supports it.
//!
//! The available space is the free space minus the unused part of the promises. A promise beyond that is refused, so a created volume can be filled,
//! whatever else the disk contains.

use crate::confine::{DIRECTORY, open_confined};
use crate::failure::kernel;
use crate::pool::directory;
use crate::pool::handle::{Pool, ledger_failed};
use crate::pool::ledger::{Inode, Record};
use crate::pool::place::Place;
use crate::walk::{if_there, walk};
use rustix::fs::{AtFlags, FileType, OFlags, statat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use uuid::Uuid;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::PoolUsage;
use wasmount_sys::quota;

/// The first of the project numbers from which one is chosen: far above the small numbers that administrators assign by hand in /etc/projid.
const FIRST_PROJECT: u32 = 1 << 30;
/// How many used numbers are skipped before giving up. One of a billion numbers is seldom in use.
const PROJECT_ATTEMPTS: usize = 16;

/// A tree or image to which bytes are promised.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) pool: &'a Pool,
    /// For messages.
    pub(super) place: &'a Place,
    pub(super) inode: Inode,
}

impl Holder<'_> {
    /// Promises an image its size, and records its path. Returns the earlier record. Durable after the ledger's sync.
    pub(super) fn promise_image(&self, size: u64) -> Result<Record, MountError> {
        self.promise(size, |record| {
            record.path = Some(self.place.path.as_str().to_owned());
        })
    }

    /// Sets the promise to `bytes`, and makes another change to the record.
    fn promise(&self, bytes: u64, change: impl Fn(&mut Record)) -> Result<Record, MountError> {
        match self.try_promise(bytes, &change) {
            // First by the last measurement, or as if nothing had been used: otherwise each new volume would measure all others.
            Err(MountError::NoSpace { .. }) => {
                measure(self.pool)
                    .map_err(|errno| self.place.failed("read the free space", errno))?;
                self.try_promise(bytes, &change)
            }
            promised => promised,
        }
    }

    fn try_promise(&self, bytes: u64, change: impl Fn(&mut Record)) -> Result<Record, MountError> {
        let Self { pool, place, inode } = *self;
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
            .ok_or_else(|| {
                MountError::no_space(
                    place,
                    format!("{more} more bytes are wanted, {available} can still be promised"),
                )
            })
    }

    /// Changes the record unconditionally.
    pub(super) fn set(&self, change: impl FnOnce(&mut Record)) -> Result<(), MountError> {
        let changed = self.pool.ledger.update(self.inode, |_, record| {
            change(record);
            true
        });
        changed
            .map(drop)
            .map_err(|error| ledger_failed(self.place, error))
    }

    /// Limits the project of a tree. `false`: the file system has no project quota.
    fn enforce(
        &self,
        tree: &OwnedFd,
        before: &Record,
        bytes: Option<u64>,
    ) -> Result<bool, MountError> {
        let failed = |errno| self.place.failed("set the project quota", errno);
        let project = match (before.project, bytes) {
            (Some(project), _) => project,
            (None, None) => return Ok(false),
            (None, Some(_)) => match self.choose_project(tree)? {
                Some(project) => project,
                None => return Ok(false),
            },
        };
        quota::set_project_limit(tree, project, bytes.unwrap_or(0)).map_err(failed)?;
        if bytes.is_some() && !before.in_project {
            // A copy has content already. The limit is set first, so that no write can exceed it.
            assign(tree, project).map_err(failed)?;
            rustix::fs::syncfs(tree).map_err(failed)?;
            self.set(|record| record.in_project = true)?;
        }
        Ok(bytes.is_some())
    }

    /// Chooses an unused project and records it before it is used. The number is random, because a file system may contain several pools: they need
    /// no common lock and never choose the same one.
    fn choose_project(&self, tree: &OwnedFd) -> Result<Option<u32>, MountError> {
        for _ in 0..PROJECT_ATTEMPTS {
            let (random, _, _, _) = Uuid::new_v4().as_fields();
            let project = FIRST_PROJECT | (random >> 2);
            match quota::project_usage(tree, project) {
                Ok(usage) if usage.limit_bytes > 0 || usage.used_bytes > 0 => {}
                // `ENOENT`: it never had a quota.
                Ok(_) | Err(Errno::NOENT) => {
                    self.set(|record| record.project = Some(project))?;
                    return Ok(Some(project));
                }
                // There is no project quota, or this host may not use it.
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// Space of the pool. It measures each volume with a promise: the cost of an exact number grows with the number of volumes.
pub(super) fn capacity(pool: &Pool, name: &str) -> Result<PoolUsage, MountError> {
    measure(pool).map_err(|errno| kernel("read the free space", format!("pool `{name}`"), errno))
}

/// Measures the used part of each promise, and stores it in the ledger.
fn measure(pool: &Pool) -> Result<PoolUsage, Errno> {
    // The order matters: data written in between is counted twice and not missed.
    let used = pool.ledger.all().into_iter().map(|(inode, record)| {
        let used = used(pool, inode, &record);
        (inode, used.unwrap_or(0))
    });
    let used: Vec<_> = used.collect();
    let (total_bytes, free) = disk(pool)?;
    let outstanding = pool.ledger.measured(&used, free);
    Ok(PoolUsage {
        total_bytes,
        available_bytes: free.saturating_sub(outstanding),
        promised_bytes: outstanding,
        used_bytes: total_bytes.saturating_sub(free),
    })
}

/// Bytes of a promise that its holder may still use on the disk.
fn outstanding(pool: &Pool, inode: Inode, record: &Record) -> u64 {
    let used = used(pool, inode, record);
    record.promised.saturating_sub(used.unwrap_or(0))
}

/// Bytes of a promise that its holder has certainly used. They are not free any more and must not be reserved a second time.
///
/// An estimate is always too low and never too high: a reliable promise is worth more than the last byte of a disk. So nothing counts as used for a
/// tree without a quota (its bytes are subtracted from the pool twice, as used and as promised), and for a copy that shares blocks (overwriting them
/// allocates new ones).
fn used(pool: &Pool, inode: Inode, record: &Record) -> Option<u64> {
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
    is_it.then(|| directory::allocated_bytes(&status))
}

/// Promises bytes to a tree, or withdraws the promise. Returns whether the file system enforces it. Durable after
/// [`Pool::sync_ledger`].
pub(super) fn set_quota(
    pool: &Pool,
    place: &Place,
    bytes: Option<u64>,
) -> Result<bool, MountError> {
    let tree = directory::open(pool, place)?;
    let (inode, _) = Inode::of_fd(&tree).map_err(|errno| place.failed("stat", errno))?;
    let holder = Holder { pool, place, inode };
    // After a power cut no record must name a tree that never reached the disk: its promise would stay for ever.
    directory::sync(pool, std::slice::from_ref(place))?;
    directory::takes_changes(&tree).map_err(|errno| place.failed("set the quota", errno))?;
    let before = holder.promise(bytes.unwrap_or(0), |_| ())?;
    let enforced = holder.enforce(&tree, &before, bytes);
    if enforced.is_err() {
        holder.set(|record| *record = before)?;
    }
    enforced
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
            return Ok(false);
        };
        let (flags, is_directory) = match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => (DIRECTORY, true),
            FileType::RegularFile => (OFlags::RDONLY | OFlags::NONBLOCK, false),
            // Links and special files have no content to count, and cannot be opened for this call.
            _ => return Ok(false),
        };
        let Some(inner) = if_there(open_confined(directory, name, flags))? else {
            return Ok(false);
        };
        quota::set_project(&inner, project, is_directory)?;
        Ok(is_directory)
    };
    walk(tree, put).map_err(|stopped| stopped.errno)
}

/// Size and free bytes for unprivileged users.
fn disk(pool: &Pool) -> Result<(u64, u64), Errno> {
    let disk = rustix::fs::fstatvfs(&pool.root)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok((bytes(disk.f_blocks), bytes(disk.f_bavail)))
}
