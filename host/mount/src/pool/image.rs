//! Images: sparse files used as block volumes. Their logical size is promised, so a created volume can be filled.
//!
//! An image that this host did not create (for example one restored by hand) has no promised size until it is expanded.

use crate::confine::open_confined;
use crate::pool::directory::file_type;
use crate::pool::handle::{Pool, fresh_name};
use crate::pool::ledger::Inode;
use crate::pool::place::Place;
use crate::pool::promise::Holder;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Mode of an image, which is read and written through its loop device only.
const IMAGE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// An image that is being made in the directory of unfinished copies. When it is dropped, it is removed with its promise, unless it was moved to its
/// place.
#[derive(Debug)]
pub(super) struct Unfinished<'p> {
    pub(super) name: String,
    pub(super) file: OwnedFd,
    /// Of its promise, with its future place.
    pub(super) holder: Holder<'p>,
}

/// Creates a sparse image. If it exists with the same size, it is a success.
pub(super) fn create(pool: &Pool, place: &Place, size: u64) -> Result<(), MountError> {
    if size == 0 {
        return Err(place.too_much("its size is 0"));
    }
    let parent = pool.parent(place)?;
    if let Some(status) = pool.status(&parent, place)? {
        check_same(place, &status, size)?;
        // An earlier call may have been killed before the sync.
        return pool.sync_parent(&parent, place);
    }
    let unfinished = Unfinished::new(pool, place)?;
    unfinished.holder.promise_image(size)?;
    rustix::fs::ftruncate(&unfinished.file, size)
        .and_then(|()| rustix::fs::fsync(&unfinished.file))
        .map_err(|errno| place.failed("size", errno))?;
    match pool.finish(&unfinished.name, place) {
        // A concurrent call created it.
        Err(error @ MountError::AlreadyExists { .. }) => match pool.status(&parent, place)? {
            Some(status) => check_same(place, &status, size),
            None => Err(error),
        },
        finished => finished,
    }
}

/// Expands an image. If it has that size already, it is a success.
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
        let holder = Holder { pool, place, inode };
        let before = holder.promise_image(size)?;
        if let Err(errno) = rustix::fs::ftruncate(&file, size) {
            holder.set(|record| *record = before)?;
            return Err(place.failed("grow", errno));
        }
        pool.sync_ledger(place)?;
    }
    rustix::fs::fsync(&file).map_err(|errno| place.failed("sync", errno))
}

/// Opens an image and refuses everything else: opening a named pipe would block, opening a device has side effects.
pub(super) fn open(pool: &Pool, place: &Place, flags: OFlags) -> Result<OwnedFd, MountError> {
    let parent = pool.parent(place)?;
    match pool.status(&parent, place)? {
        Some(status) if file_type(&status) == FileType::RegularFile => {}
        Some(_) => return Err(place.unfit("it is not an image")),
        None => return Err(place.failed("open", Errno::NOENT)),
    }
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    open_confined(&parent, place.path.name(), flags).map_err(|errno| place.failed("open", errno))
}

impl<'p> Unfinished<'p> {
    pub(super) fn new(pool: &'p Pool, place: &'p Place) -> Result<Self, MountError> {
        let name = fresh_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&pool.unfinished, &name, flags, IMAGE_MODE)
            .map_err(|errno| place.failed("make", errno))?;
        let (inode, _) = Inode::of_fd(&file).map_err(|errno| place.failed("stat", errno))?;
        let holder = Holder { pool, place, inode };
        Ok(Self { name, file, holder })
    }
}

impl Drop for Unfinished<'_> {
    /// If this fails, the next start removes it. An image that reached its place keeps its record, by which a retry recognises it.
    fn drop(&mut self) {
        let Holder { pool, inode, .. } = self.holder;
        let (aside, flags) = (&pool.unfinished, AtFlags::SYMLINK_NOFOLLOW);
        if rustix::fs::statat(aside, &self.name, flags).is_ok() {
            let _ = pool.ledger.forget(inode.number);
            let _ = rustix::fs::unlinkat(aside, &self.name, AtFlags::empty());
        }
    }
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
