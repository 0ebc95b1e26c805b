//! Deletes trees and images so that a kill leaves nothing half visible: the entry is renamed into the trash, the rename is made durable, and then the
//! entry is deleted there step by step. The next start continues.
//!
//! A directory is deleted without recursion: its entries that are not empty are moved to a bin in the trash, which is emptied in the same way until
//! nothing is left. So neither depth nor width matters: three directories are open at a time, and the list of remaining entries is the bin itself,
//! which lies on the disk and is found by the next start. It never follows a link or crosses a mount.

use crate::confine::{open_confined, remove_empty};
use crate::mountinfo;
use crate::observe::mount_id;
use crate::pool::directory::file_type;
use crate::pool::handle::{
    DIRECTORY, Pool, entries, errno_of, fresh_name, names, rename_no_replace,
};
use crate::pool::place::Place;
use crate::pool::users;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use wasmount_core::mounter::MountError;
use wasmount_sys::quota;

/// How often a directory that is not empty yet is read again. A second time is sufficient unless a process still writes into it.
const PASSES: usize = 4;

/// A running deletion.
struct Deletion<'p> {
    pool: &'p Pool,
    /// Created on demand: an image and an empty tree need none.
    bin: OnceCell<Bin>,
}

struct Bin {
    name: CString,
    directory: OwnedFd,
}

/// Removes an image, or a tree with its content, unless a volume uses it. If it does not exist, it is a success.
pub(super) fn remove(pool: &Pool, place: &Place, kind: FileType) -> Result<(), MountError> {
    let _leaving = pool.copies.leave(place)?;
    let Some(parent) = pool.parent_if_there(place)? else {
        return Ok(());
    };
    let Some(status) = pool.look(&parent, place)? else {
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

/// Moves a name into the trash, where it is not visible. Durable on return.
pub(super) fn discard(pool: &Pool, parent: BorrowedFd<'_>, name: &str) -> Result<CString, Errno> {
    let discarded = fresh_name();
    rename_no_replace(parent, name, &pool.trash, &discarded)?;
    rustix::fs::fsync(parent)?;
    rustix::fs::fsync(&pool.trash)?;
    CString::new(discarded).map_err(|_| Errno::INVAL)
}

/// Deletes what [`discard`] moved. It continues after an error and returns the first one. What could not be deleted is tried again with the next
/// deletion: a mount that prevented it may be gone.
pub(super) fn delete(pool: &Pool, discarded: CString) -> Result<(), Errno> {
    let stuck = std::mem::take(&mut *pool.stuck.lock().unwrap_or_else(PoisonError::into_inner));
    let deleted = delete_or_keep(pool, discarded);
    for name in stuck {
        let _ = delete_or_keep(pool, name);
    }
    deleted
}

/// Clears unfinished work of a killed host, and continues its deletions in the background, because they may be large.
pub(super) fn resume(pool: &Arc<Pool>) -> Result<(), Errno> {
    for name in names(&pool.unfinished)? {
        rename_no_replace(&pool.unfinished, &*name, &pool.trash, fresh_name())?;
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

/// Whether another mount lies in a tree. Checked before a tree is discarded: a mount would keep the tree in the trash for ever. The mount table
/// answers it, however large the tree is.
fn has_mount(tree: BorrowedFd<'_>) -> Result<bool, Errno> {
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
    let deletion = Deletion {
        pool,
        bin: OnceCell::new(),
    };
    let deleted = deletion.of(pool.trash.as_fd(), &name);
    let emptied = deletion.empty_bin();
    let mut stuck = pool.stuck.lock().unwrap_or_else(PoisonError::into_inner);
    if deleted.is_err() {
        stuck.push(name);
    }
    if emptied.is_err() {
        stuck.extend(deletion.bin.into_inner().map(|bin| bin.name));
    }
    deleted.and(emptied)
}

impl Deletion<'_> {
    /// Deletes an entry. Its entries that are not empty are then in the bin.
    fn of(&self, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        self.forget(parent, name)?;
        match remove_empty(parent, name) {
            Err(Errno::NOTEMPTY) => {}
            removed => return removed,
        }
        let directory = match open_confined(parent, name, DIRECTORY) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::XDEV) => return Err(Errno::BUSY),
            Err(errno) => return Err(errno),
        };
        for _ in 0..PASSES {
            let mut result = Ok(());
            for entry in entries(&directory)? {
                let entry = entry?;
                result = result.and(self.inside(&directory, entry.file_name(), entry.ino()));
            }
            match remove_empty(parent, name) {
                Err(Errno::NOTEMPTY) => result?,
                removed => return removed,
            }
        }
        Err(Errno::NOTEMPTY)
    }

    fn inside(&self, directory: &OwnedFd, name: &CStr, number: u64) -> Result<(), Errno> {
        forget(self.pool, number)?;
        match remove_empty(directory.as_fd(), name) {
            Err(Errno::NOTEMPTY) => {
                let bin = self.bin()?;
                rename_no_replace(directory, name, &bin.directory, fresh_name())
            }
            removed => removed,
        }
    }

    /// Deletes the content of the bin, and what is moved into it meanwhile, while there is progress.
    fn empty_bin(&self) -> Result<(), Errno> {
        let Some(bin) = self.bin.get() else {
            return Ok(());
        };
        loop {
            let (mut result, mut goes_on) = (Ok(()), false);
            for entry in entries(&bin.directory)? {
                let deleted = self.of(bin.directory.as_fd(), entry?.file_name());
                goes_on |= deleted.is_ok();
                result = result.and(deleted);
            }
            match remove_empty(self.pool.trash.as_fd(), &bin.name) {
                Err(Errno::NOTEMPTY) if goes_on => {}
                Err(Errno::NOTEMPTY) => return result.and(Err(Errno::NOTEMPTY)),
                removed => return removed,
            }
        }
    }

    fn bin(&self) -> Result<&Bin, Errno> {
        if let Some(bin) = self.bin.get() {
            return Ok(bin);
        }
        let name = CString::new(fresh_name()).map_err(|_| Errno::INVAL)?;
        rustix::fs::mkdirat(&self.pool.trash, &name, Mode::RWXU)?;
        let directory = open_confined(&self.pool.trash, name.as_c_str(), DIRECTORY)?;
        Ok(self.bin.get_or_init(|| Bin { name, directory }))
    }

    /// The record is removed first: a record without its inode would reserve space for no volume.
    fn forget(&self, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => forget(self.pool, status.st_ino),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

fn forget(pool: &Pool, number: u64) -> Result<(), Errno> {
    if let Some(project) = pool.ledger.forget(number).map_err(errno_of)? {
        // Without files and limit the number is free again; a limit that remains affects no files.
        let _ = quota::set_project_limit(&pool.root, project, 0);
    }
    Ok(())
}
