//! Deletion that a kill cannot leave half visible: what goes is renamed into the trash, that is made durable, and then it is deleted there, step by
//! step; the next start goes on.
//!
//! A directory is deleted flat: what lies in it and is not empty is moved to a bin in the trash, which is emptied in the same way until nothing is
//! left. So neither depth nor width matters: three directories are open at a time, and the list of what is left is the bin itself, on the disk and
//! found by the next start. Never through a link, never onto another mount.

use crate::confine::{open_confined, remove_empty};
use crate::mountinfo;
use crate::observe::mount_id;
use crate::pool::handle::{DIRECTORY, Pool, names, rename_no_replace};
use rustix::fs::{AtFlags, Dir, Mode};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use wasmount_sys::quota;

/// How often a directory is read again that is not empty yet. A second time is enough unless somebody still writes into it.
const PASSES: usize = 4;

/// A deletion under way.
struct Deletion<'p> {
    pool: &'p Pool,
    /// Made when it is needed: an image and an empty tree do without.
    bin: OnceCell<Bin>,
}

struct Bin {
    name: CString,
    directory: OwnedFd,
}

/// Moves a name out of sight. Durable on return.
pub(super) fn discard(pool: &Pool, parent: BorrowedFd<'_>, name: &str) -> Result<CString, Errno> {
    let discarded = pool.fresh_name();
    rename_no_replace(parent, name, &pool.trash, &discarded)?;
    rustix::fs::fsync(parent)?;
    rustix::fs::fsync(&pool.trash)?;
    CString::new(discarded).map_err(|_| Errno::INVAL)
}

/// Deletes what [`discard`] moved. Goes on after an error and returns the first. What could not be deleted is tried again with the next
/// deletion: a mount that was in the way may be gone.
pub(super) fn delete(pool: &Pool, discarded: CString) -> Result<(), Errno> {
    let stuck = std::mem::take(&mut *pool.stuck.lock().unwrap_or_else(PoisonError::into_inner));
    let deleted = delete_or_keep(pool, discarded);
    for name in stuck {
        let _ = delete_or_keep(pool, name);
    }
    deleted
}

/// Clears what was being made when a host was killed, and goes on deleting what was being deleted, in the background: it may be a lot.
pub(super) fn resume(pool: &Arc<Pool>) -> Result<(), Errno> {
    for name in names(&pool.unfinished)? {
        rename_no_replace(&pool.unfinished, &*name, &pool.trash, pool.fresh_name())?;
    }
    // As many as there were deletions under way, and two for each that failed.
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
    started
        .map(drop)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

/// Whether another mount lies in a tree. Asked before a tree is discarded: a mount would keep it in the trash for ever. The mount table says
/// so, however large the tree is.
pub(super) fn has_mount(tree: BorrowedFd<'_>) -> Result<bool, Errno> {
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
    /// Deletes an entry. What lies in it and is not empty is in the bin then.
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
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let inner = entry.file_name();
                if inner != c"." && inner != c".." {
                    result = result.and(self.inside(&directory, inner, entry.ino()));
                }
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
                rename_no_replace(directory, name, &bin.directory, self.pool.fresh_name())
            }
            removed => removed,
        }
    }

    /// Deletes what is in the bin, and what comes into it meanwhile, as long as that leads on.
    fn empty_bin(&self) -> Result<(), Errno> {
        let Some(bin) = self.bin.get() else {
            return Ok(());
        };
        loop {
            let (mut result, mut goes_on) = (Ok(()), false);
            for entry in Dir::read_from(&bin.directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                let deleted = self.of(bin.directory.as_fd(), name);
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
        let name = CString::new(self.pool.fresh_name()).map_err(|_| Errno::INVAL)?;
        rustix::fs::mkdirat(&self.pool.trash, &name, Mode::RWXU)?;
        let directory = open_confined(&self.pool.trash, name.as_c_str(), DIRECTORY)?;
        Ok(self.bin.get_or_init(|| Bin { name, directory }))
    }

    /// The record goes first: one that outlived its inode would keep space promised to nobody.
    fn forget(&self, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => forget(self.pool, status.st_ino),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
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
