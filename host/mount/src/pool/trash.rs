//! Deletion that a kill cannot leave half visible: what goes is renamed into the trash, that is made durable, and then it is deleted there,
//! step by step; the next start goes on. Apart because every removal, and every clearing up, is this one thing.
//!
//! A directory is deleted flat: what lies in it and is not empty is moved to the trash itself. So depth does not matter, one descriptor is
//! open at a time, and everything that is left is found in one place. Never through a link, never onto another mount.

use crate::confine::open_confined;
use crate::pool::open::{DIRECTORY, Pool, names, rename_no_replace};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError};
use wasmount_sys::quota;

/// How often a directory is read again that is not empty yet. A second time is enough unless somebody still writes into it.
const PASSES: usize = 4;

/// Moves a name out of sight. Durable on return.
pub(super) fn discard(pool: &Pool, parent: BorrowedFd<'_>, name: &str) -> Result<CString, Errno> {
    let discarded = pool.fresh_name();
    rename_no_replace(parent, name, &pool.trash, &discarded)?;
    rustix::fs::fsync(parent)?;
    rustix::fs::fsync(&pool.trash)?;
    CString::new(discarded).map_err(|_| Errno::INVAL)
}

/// Deletes what [`discard`] moved; `number` is its inode's. Goes on after an error and returns the first. What could not be deleted is tried
/// again with the next deletion: a mount that was in the way may be gone.
pub(super) fn delete(pool: &Pool, discarded: CString, number: u64) -> Result<(), Errno> {
    let stuck = std::mem::take(&mut *pool.stuck.lock().unwrap_or_else(PoisonError::into_inner));
    let deleted = delete_all(pool, vec![(discarded, number)]);
    let _ = delete_all(pool, stuck);
    deleted
}

/// Clears what was being made when a host was killed, and goes on deleting what was being deleted, in the background: it may be a lot.
pub(super) fn resume(pool: &Arc<Pool>) -> Result<(), Errno> {
    for (name, _) in names(&pool.unfinished)? {
        rename_no_replace(&pool.unfinished, &*name, &pool.trash, pool.fresh_name())?;
    }
    let left = names(&pool.trash)?;
    if left.is_empty() {
        return Ok(());
    }
    let pool = Arc::clone(pool);
    let thread = std::thread::Builder::new().name("pool-trash".to_owned());
    let started = thread.spawn(move || {
        if let Err(errno) = delete_all(&pool, left) {
            tracing::warn!(%errno, "a pool's trash could not be emptied; the next start tries again");
        }
    });
    started
        .map(drop)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

/// Whether another mount lies in a tree. Asked before a tree is discarded: a mount would keep it in the trash for ever.
pub(super) fn has_mount(tree: BorrowedFd<'_>) -> Result<bool, Errno> {
    // Paths wait, not descriptors: a tree may be wider than the limit of open files.
    let mut waiting: Vec<Vec<u8>> = vec![b".".to_vec()];
    while let Some(path) = waiting.pop() {
        let directory = match open_confined(tree, path.as_slice(), DIRECTORY) {
            Ok(directory) => directory,
            Err(Errno::XDEV) => return Ok(true),
            // Gone or replaced just now, or deeper than a path can say; deletion itself stops at a mount too.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => continue,
            Err(errno) => return Err(errno),
        };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let may_be_directory =
                matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if may_be_directory && name != c"." && name != c".." {
                waiting.push([path.as_slice(), b"/", name.to_bytes()].concat());
            }
        }
    }
    Ok(false)
}

fn delete_all(pool: &Pool, mut waiting: Vec<(CString, u64)>) -> Result<(), Errno> {
    let mut result = Ok(());
    while let Some((name, number)) = waiting.pop() {
        let deleted = delete_one(pool, &name, number, &mut waiting);
        if deleted.is_err() {
            let mut stuck = pool.stuck.lock().unwrap_or_else(PoisonError::into_inner);
            stuck.push((name, number));
        }
        result = result.and(deleted);
    }
    result
}

fn delete_one(
    pool: &Pool,
    name: &CString,
    number: u64,
    waiting: &mut Vec<(CString, u64)>,
) -> Result<(), Errno> {
    // The record goes first: one that outlived its inode would keep space promised to nobody.
    forget(pool, number)?;
    let directory = match open_confined(&pool.trash, name.as_c_str(), DIRECTORY) {
        Ok(directory) => directory,
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return rustix::fs::unlinkat(&pool.trash, name, AtFlags::empty());
        }
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::XDEV) => return Err(Errno::BUSY),
        Err(errno) => return Err(errno),
    };
    let mut result = Ok(());
    for _ in 0..PASSES {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let inner = entry.file_name();
            if inner == c"." || inner == c".." {
                continue;
            }
            forget(pool, entry.ino())?;
            let removed = match entry.file_type() {
                FileType::Directory => Err(Errno::ISDIR),
                _ => rustix::fs::unlinkat(&directory, inner, AtFlags::empty()),
            };
            let removed = match removed {
                Err(Errno::ISDIR) => rustix::fs::unlinkat(&directory, inner, AtFlags::REMOVEDIR),
                removed => removed,
            };
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY) => {
                    let own = pool.fresh_name();
                    rename_no_replace(&directory, inner, &pool.trash, &own)?;
                    waiting.push((CString::new(own).map_err(|_| Errno::INVAL)?, entry.ino()));
                }
                Err(errno) => result = result.and(Err(errno)),
            }
        }
        match rustix::fs::unlinkat(&pool.trash, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => result?,
            removed => return removed,
        }
    }
    Err(Errno::NOTEMPTY)
}

fn forget(pool: &Pool, number: u64) -> Result<(), Errno> {
    let freed = pool
        .ledger
        .forget(number)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if let Some(project) = freed {
        // Without files and limit the number is free again; a limit that stays limits nobody.
        let _ = quota::set_project_limit(&pool.root, project, 0);
    }
    Ok(())
}
