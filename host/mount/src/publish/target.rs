//! The target of a publish: a directory, or for a raw block volume a file, made here and opened.
//!
//! It is apart because it is the one thing that a publish makes on a path of the client's. It must not know what is shown there.

use crate::failure::kernel;
use crate::node::{Place, place, refuse_content};
use crate::roots::Location;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Mode of a target directory: kubelet's own for the directories above it. The mount hides it.
const TARGET_MODE: Mode = Mode::from_raw_mode(0o750);
/// Mode of a target file. The device node hides it.
const TARGET_FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// Makes the target and opens it. One that is there already is as good: some clients make it.
pub(super) fn make_target(location: &Location) -> Result<OwnedFd, MountError> {
    match mkdirat(&location.parent, &location.name, TARGET_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(location.failed("mkdir", errno)),
    }
    match place(location)? {
        Place::Directory(directory) => {
            refuse_content(&directory, location)?;
            Ok(directory)
        }
        Place::File(..) => Err(location.occupied("it is a file, and the volume is a file system")),
        Place::Missing | Place::Taken(_) => Err(kernel("open", &location.path, Errno::STALE)),
    }
}

/// The same for a raw block volume, whose target is a file (CSI specification, NodePublishVolumeRequest.target_path).
pub(super) fn make_target_file(location: &Location) -> Result<OwnedFd, MountError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&location.parent, &location.name, flags, TARGET_FILE_MODE) {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(location.failed("create", errno)),
    }
    match place(location)? {
        Place::File(file, observation) if observation.size_bytes == 0 => Ok(file),
        Place::File(..) => Err(location.occupied("it is a file with content; move it away first")),
        Place::Directory(_) => {
            Err(location.occupied("it is a directory, and the volume is a block device"))
        }
        Place::Missing | Place::Taken(_) => Err(kernel("open", &location.path, Errno::STALE)),
    }
}
