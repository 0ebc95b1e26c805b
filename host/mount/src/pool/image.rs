//! Images: sparse files that are block volumes. Their logical size is promised, so a volume that was sold can be filled.
//!
//! An image that was not made here (restored by hand, say) has no promise until it grows.

use crate::confine::open_confined;
use crate::pool::directory::file_type;
use crate::pool::handle::Pool;
use crate::pool::ledger::Inode;
use crate::pool::place::Place;
use crate::pool::{promise, trash};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use wasmount_core::mounter::MountError;

/// An image is read and written through its loop device only.
const IMAGE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Makes a sparse image. There with the same size: done.
pub(super) fn create(pool: &Pool, place: &Place, size: u64) -> Result<(), MountError> {
    if size == 0 {
        return Err(place.too_much("its size is 0"));
    }
    let parent = pool.parent(place)?;
    if let Some(status) = pool.look(parent.as_fd(), place)? {
        check_same(place, &status, size)?;
        // An earlier call may have been killed before the sync.
        return pool.sync_parent(&parent, place);
    }
    let (name, file) = unfinished(pool, place)?;
    let made = fill(pool, place, &file, size).and_then(|()| pool.finish(&name, place));
    if made.is_err() {
        abandon(pool, &name, &file);
    }
    match made {
        // Somebody made it at this moment.
        Err(MountError::AlreadyExists { .. }) => match pool.look(parent.as_fd(), place)? {
            Some(status) => check_same(place, &status, size),
            None => made,
        },
        made => made,
    }
}

/// Grows an image. Of that size already: done.
pub(super) fn resize(pool: &Pool, place: &Place, size: u64) -> Result<(), MountError> {
    let file = open(pool, place, OFlags::RDWR)?;
    let (inode, status) = Inode::of_fd(&file).map_err(|errno| place.failed("stat", errno))?;
    if status.stx_nlink > 1 {
        return Err(place.unfit("it has a second name, so it is not an image of this pool alone"));
    }
    if size < status.stx_size {
        return Err(place.too_much(&format!(
            "it has {} bytes, and an image never shrinks (to {size})",
            status.stx_size
        )));
    }
    if size > status.stx_size {
        let before = promise::promise_image(pool, place, inode, size)?;
        if let Err(errno) = rustix::fs::ftruncate(&file, size) {
            promise::restore(pool, place, inode, before)?;
            return Err(place.failed("grow", errno));
        }
        pool.sync_ledger(place)?;
    }
    rustix::fs::fsync(&file).map_err(|errno| place.failed("sync", errno))
}

/// Removes an image, if it is `unused`. Not there: done.
pub(super) fn remove(
    pool: &Pool,
    place: &Place,
    unused: impl FnOnce() -> Result<(), MountError>,
) -> Result<(), MountError> {
    let parent = match pool.parent(place) {
        Err(MountError::NotFound { .. }) => return Ok(()),
        parent => parent?,
    };
    let Some(status) = pool.look(parent.as_fd(), place)? else {
        return pool.sync_parent(&parent, place);
    };
    if file_type(&status) != FileType::RegularFile {
        return Err(place.unfit("it is not an image"));
    }
    unused()?;
    let removed = match trash::discard(pool, parent.as_fd(), place.path.name()) {
        Ok(discarded) => trash::delete(pool, discarded),
        Err(Errno::NOENT) => return pool.sync_parent(&parent, place),
        Err(errno) => Err(errno),
    };
    removed.map_err(|errno| place.failed("remove", errno))
}

/// Opens an image, and nothing else: a named pipe would block, a device act.
pub(super) fn open(pool: &Pool, place: &Place, flags: OFlags) -> Result<OwnedFd, MountError> {
    let parent = pool.parent(place)?;
    match pool.look(parent.as_fd(), place)? {
        Some(status) if file_type(&status) == FileType::RegularFile => {}
        Some(_) => return Err(place.unfit("it is not an image")),
        None => return Err(place.failed("open", Errno::NOENT)),
    }
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    open_confined(&parent, place.path.name(), flags).map_err(|errno| place.failed("open", errno))
}

/// An empty file in the folder of what is being made.
pub(super) fn unfinished(pool: &Pool, place: &Place) -> Result<(String, OwnedFd), MountError> {
    let name = pool.fresh_name();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&pool.unfinished, &name, flags, IMAGE_MODE)
        .map_err(|errno| place.failed("make", errno))?;
    Ok((name, file))
}

/// Takes away what could not be finished, and its promise. The next start does it otherwise. What has come to its place all the same keeps
/// its record: the retry knows it by that.
pub(super) fn abandon(pool: &Pool, name: &str, file: &OwnedFd) {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if rustix::fs::statx(&pool.unfinished, name, flags, Inode::FIELDS).is_err() {
        return;
    }
    if let Ok((_, status)) = Inode::of_fd(file) {
        let _ = pool.ledger.forget(status.stx_ino);
    }
    let _ = rustix::fs::unlinkat(&pool.unfinished, name, AtFlags::empty());
}

fn fill(pool: &Pool, place: &Place, file: &OwnedFd, size: u64) -> Result<(), MountError> {
    let (inode, _) = Inode::of_fd(file).map_err(|errno| place.failed("stat", errno))?;
    promise::promise_image(pool, place, inode, size)?;
    rustix::fs::ftruncate(file, size)
        .and_then(|()| rustix::fs::fsync(file))
        .map_err(|errno| place.failed("size", errno))
}

fn check_same(place: &Place, status: &Statx, size: u64) -> Result<(), MountError> {
    if file_type(status) != FileType::RegularFile {
        return Err(place.otherwise_there("it is not an image"));
    }
    if status.stx_size != size {
        return Err(place.otherwise_there(format!("it has {} bytes, not {size}", status.stx_size)));
    }
    Ok(())
}
