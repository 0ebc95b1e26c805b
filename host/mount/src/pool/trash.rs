//! Deletes trees and images so that a kill leaves nothing half visible: the entry is renamed into the trash, the rename is made durable, and then the
//! entry is deleted there step by step. The next start continues.
//!
//! A tree is deleted without recursion: an entry that is not empty is emptied by moving what is not empty in it to the top of the tree, until nothing
//! is left. So neither depth nor width matters: two directories are open at a time, and the list of remaining entries is the top itself, which lies
//! on the disk and is found by the next start. It never follows a link or crosses a mount. A subvolume of a btrfs is a tree of its own.

use crate::confine::{DIRECTORY, entries, names, open_confined, remove_empty};
use crate::mountinfo;
use crate::observe::mount_id;
use crate::pool::directory::file_type;
use crate::pool::handle::{Pool, errno_of, fresh_name, rename_no_replace, status_of};
use crate::pool::place::Place;
use crate::pool::users;
use rustix::fs::{DirEntry, FileType, OFlags, fstat, makedev};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;
use wasmount_sys::quota;

/// How often a directory that is not empty yet is read again. A second time is sufficient unless a process still writes into it.
const PASSES: usize = 4;
/// Most subvolumes of a btrfs that may lie in each other in a tree: each takes a part of the stack. No tool makes more than a few.
const SUBVOLUMES: usize = 64;
/// How many entries are looked at one by one instead of in the mount table, which takes 8 us for each mount of the node. 64 bounds the directories that
/// are open at a time, and the calls that are in vain for a larger tree.
pub(super) const FEW: usize = 64;

/// Removes an image, or a tree with its content, unless a volume uses it. If it does not exist, it is a success.
pub(super) fn remove(pool: &Pool, place: &Place, kind: FileType) -> Result<(), MountError> {
    let _leaving = pool.copies.leave(place)?;
    let Some(parent) = pool.parent_if_there(place)? else {
        return Ok(());
    };
    let Some(status) = pool.status(&parent, place)? else {
        // An earlier call may have been killed between rename and sync.
        return pool.sync_parent(&parent, place);
    };
    let failed = |errno| match errno {
        Errno::XDEV | Errno::BUSY => place.in_use("there is a mount in it"),
        errno => place.failed("remove", errno),
    };
    match (kind, file_type(&status) == kind) {
        (FileType::Directory, true) => {
            let tree = open_confined(&parent, place.path.name(), DIRECTORY).map_err(failed)?;
            if has_mount(tree.as_fd()).map_err(failed)? {
                return Err(failed(Errno::BUSY));
            }
        }
        (_, true) => {}
        (FileType::Directory, false) => return Err(place.unfit("it is not a directory")),
        (_, false) => return Err(place.unfit("it is not an image")),
    }
    users::refuse_used(pool, place)?;
    match discard(pool, parent.as_fd(), place.path.name()) {
        Ok(discarded) => delete(pool, discarded).map_err(failed),
        // A concurrent call removes the same path.
        Err(Errno::NOENT) => pool.sync_parent(&parent, place),
        Err(errno) => Err(failed(errno)),
    }
}

/// Moves a name into the trash, where it is not visible. Durable on return: a file system renames as a whole, so one of the two directories suffices.
pub(super) fn discard(pool: &Pool, parent: BorrowedFd<'_>, name: &str) -> Result<CString, Errno> {
    let discarded = fresh_name();
    rename_no_replace(parent, name, &pool.trash, discarded.as_str())?;
    rustix::fs::fsync(parent)?;
    CString::new(discarded).map_err(|_| Errno::INVAL)
}

/// Deletes what [`discard`] moved. It continues after an error and returns the first one. What could not be deleted is tried again with the next
/// deletion: a mount that prevented it may be gone.
pub(super) fn delete(pool: &Pool, discarded: CString) -> Result<(), Errno> {
    let stuck = std::mem::take(&mut *lock(&pool.stuck));
    let deleted = delete_or_keep(pool, discarded);
    for name in stuck {
        let _ = delete_or_keep(pool, name);
    }
    deleted
}

/// Clears unfinished work of a killed host, and continues its deletions in the background, because they may be large.
pub(super) fn resume(pool: &Arc<Pool>) -> Result<(), Errno> {
    for name in names(&pool.unfinished)? {
        rename_no_replace(&pool.unfinished, &*name, &pool.trash, &*fresh_name())?;
    }
    // As many as there were running deletions, and two for each failed one.
    let left = names(&pool.trash)?;
    if left.is_empty() {
        return Ok(());
    }
    let pool = Arc::clone(pool);
    let thread = std::thread::Builder::new().name("pool-trash".to_owned());
    let started = thread.spawn(move || {
        for name in left {
            if let Err(errno) = delete_or_keep(&pool, name) {
                tracing::warn!(%errno, "a pool's trash could not be emptied; the next deletion tries again");
            }
        }
    });
    started.map(drop).map_err(errno_of)
}

/// Whether another mount lies in a tree. Checked before a tree is discarded: a mount would keep the tree in the trash for ever.
fn has_mount(tree: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut left = FEW;
    match has_mount_among_few(tree, &mut left) {
        Some(found) => Ok(found),
        None => has_mount_by_table(tree),
    }
}

/// `None`: more entries than are `left`, or one that cannot be read. It accesses no other mount.
fn has_mount_among_few(directory: BorrowedFd<'_>, left: &mut usize) -> Option<bool> {
    for entry in entries(directory).ok()? {
        let entry = entry.ok()?;
        *left = left.checked_sub(1)?;
        let flags = match entry.file_type() {
            FileType::Directory => DIRECTORY,
            FileType::Unknown => return None,
            _ => OFlags::PATH | OFlags::NOFOLLOW,
        };
        let opened = match open_confined(directory, entry.file_name(), flags) {
            Err(Errno::XDEV) => return Some(true),
            opened => opened.ok()?,
        };
        if entry.file_type() == FileType::Directory && has_mount_among_few(opened.as_fd(), left)? {
            return Some(true);
        }
    }
    Some(false)
}

/// The mount table answers it, however large the tree is.
fn has_mount_by_table(tree: BorrowedFd<'_>) -> Result<bool, Errno> {
    let own = mount_id(tree)?;
    let link = format!("/proc/thread-self/fd/{}", tree.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    let table = mountinfo::read().map_err(|_| Errno::IO)?;
    Ok(table
        .iter()
        .any(|line| line.parent_id == own && line.mount_point.starts_with(&path)))
}

fn delete_or_keep(pool: &Pool, name: CString) -> Result<(), Errno> {
    let deleted = delete_tree(pool, &name);
    if deleted.is_err() {
        lock(&pool.stuck).push(name);
    }
    deleted
}

/// Deletes an entry of the trash, and what is moved to its top meanwhile, while there is progress.
fn delete_tree(pool: &Pool, name: &CStr) -> Result<(), Errno> {
    if let Some(status) = status_of(&pool.trash, name)? {
        forget(pool, status.stx_ino)?;
    }
    let Some(top) = remove_or_open(&pool.trash, name)? else {
        return Ok(());
    };
    // The kernel moves nothing from another project into a directory that passes on its own.
    let _ = quota::set_project(&top, 0, false);
    delete_opened(pool, &pool.trash, name, &top, SUBVOLUMES)
}

/// The same for a directory that is not empty. `levels`: how many subvolumes may lie in each other below it.
fn delete_opened(
    pool: &Pool,
    parent: &OwnedFd,
    name: &CStr,
    top: &OwnedFd,
    levels: usize,
) -> Result<(), Errno> {
    let is_own = is_own(pool, top)?;
    loop {
        let (mut result, mut has_progress) = (Ok(()), false);
        for entry in entries(top)? {
            let entry = entry?;
            let deleted = forget_entry(pool, top, is_own, &entry)
                .and_then(|()| delete_entry(pool, top, is_own, entry.file_name(), levels));
            has_progress |= deleted.is_ok();
            result = result.and(deleted);
        }
        match remove_empty(parent, name) {
            Err(Errno::NOTEMPTY) if has_progress => {}
            Err(Errno::NOTEMPTY) => return result.and(Err(Errno::NOTEMPTY)),
            removed => return removed,
        }
    }
}

/// Deletes an entry at the top of a tree. Its own entries that are not empty are then at the top.
fn delete_entry(
    pool: &Pool,
    top: &OwnedFd,
    is_own: bool,
    name: &CStr,
    levels: usize,
) -> Result<(), Errno> {
    let Some(directory) = remove_or_open(top, name)? else {
        return Ok(());
    };
    // Nothing can be moved out of a subvolume.
    if device(&directory)? != device(top)? {
        let levels = levels.checked_sub(1).ok_or(Errno::LOOP)?;
        return delete_opened(pool, top, name, &directory, levels);
    }
    for _ in 0..PASSES {
        let mut result = Ok(());
        for entry in entries(&directory)? {
            let entry = entry?;
            let moved = forget_entry(pool, &directory, is_own, &entry).and_then(|()| {
                match remove_empty(&directory, entry.file_name()) {
                    Err(Errno::NOTEMPTY) => {
                        rename_no_replace(&directory, entry.file_name(), top, &*fresh_name())
                    }
                    removed => removed,
                }
            });
            result = result.and(moved);
        }
        match remove_empty(top, name) {
            Err(Errno::NOTEMPTY) => result?,
            removed => return removed,
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Removes a file or an empty directory. Any other directory is opened.
fn remove_or_open(parent: &OwnedFd, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    match remove_empty(parent, name) {
        Err(Errno::NOTEMPTY) => {}
        removed => return removed.map(|()| None),
    }
    match open_confined(parent, name, DIRECTORY) {
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::XDEV) => Err(Errno::BUSY),
        opened => opened.map(Some),
    }
}

/// Whether a directory has the pool's inode numbers. A subvolume of a btrfs has its own, and any pod can make one in its volume.
fn is_own(pool: &Pool, directory: &OwnedFd) -> Result<bool, Errno> {
    Ok(device(directory)? == device(&pool.trash)?)
}

fn device(directory: &OwnedFd) -> Result<u64, Errno> {
    Ok(fstat(directory)?.st_dev)
}

/// Removes the record of an entry of a directory, if they have the pool's inode numbers.
fn forget_entry(
    pool: &Pool,
    directory: &OwnedFd,
    is_own: bool,
    entry: &DirEntry,
) -> Result<(), Errno> {
    if !is_own {
        return Ok(());
    }
    // Only a directory can be a subvolume.
    if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
        return forget(pool, entry.ino());
    }
    let Some(status) = status_of(directory, entry.file_name())? else {
        return Ok(());
    };
    match makedev(status.stx_dev_major, status.stx_dev_minor) == device(directory)? {
        true => forget(pool, status.stx_ino),
        false => Ok(()),
    }
}

/// Removes the record of an entry that is about to be deleted: a record without its inode would reserve space for no volume.
fn forget(pool: &Pool, number: u64) -> Result<(), Errno> {
    if let Some(project) = pool.ledger.forget(number).map_err(errno_of)? {
        // Without files and limit the number is free again; a limit that remains affects no files.
        let _ = quota::set_project_limit(&pool.root, project, 0);
    }
    Ok(())
}
