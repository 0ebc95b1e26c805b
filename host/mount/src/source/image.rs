//! An image of a pool as a loop device: opened by `confine`, and refused while another volume's loop device has it.
//!
//! Two file systems of one kernel on one image would destroy it, and a plugin may name one image for two volumes. It must not know what is
//! in the image.

use crate::block::BlockDevice;
use crate::block::loop_device::{self, Attached, Tag};
use crate::confine::open_confined;
use crate::failure::kernel;
use crate::observe::{Identity, observe};
use crate::plan::PoolPlace;
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use wasmount_core::mounter::{MountError, VolumeKey};

/// Attaches the image for a volume.
pub(crate) fn attach(
    image: &PoolPlace,
    is_read_only: bool,
    key: &VolumeKey,
    tag: &Tag,
) -> Result<BlockDevice, MountError> {
    let file = open(image, is_read_only)?;
    let identity = identity_of(image, &file)?;
    if let Some(other) = conflict(&loop_device::attached()?, identity, key, is_read_only) {
        return Err(MountError::InUse {
            what: image.to_string(),
            by: format!(
                "the loop device {} of another volume or program; two users of one image would destroy it",
                other.number
            ),
        });
    }
    loop_device::attach(&file, is_read_only, tag)
}

/// A second device of the same image, which refuses writes.
pub(crate) fn attach_read_only(image: &PoolPlace, tag: &Tag) -> Result<BlockDevice, MountError> {
    loop_device::attach(&open(image, true)?, true, tag)
}

/// Which file it is.
pub(crate) fn identity(image: &PoolPlace) -> Result<Identity, MountError> {
    identity_of(image, &open(image, true)?)
}

/// Its size.
pub(crate) fn size_bytes(image: &PoolPlace) -> Result<u64, MountError> {
    let file = open(image, true)?;
    observe(&file)
        .map(|observation| observation.size_bytes)
        .map_err(|errno| kernel("statx", image, errno))
}

/// Another user of the image, where not both only read.
fn conflict<'a>(
    attached: &'a [Attached],
    identity: Identity,
    key: &VolumeKey,
    is_read_only: bool,
) -> Option<&'a Attached> {
    attached.iter().find(|other| {
        let is_own = other.tag.as_ref().is_some_and(|tag| tag.is_of(key));
        other.backing == identity && !is_own && !(other.read_only && is_read_only)
    })
}

fn open(image: &PoolPlace, is_read_only: bool) -> Result<OwnedFd, MountError> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let pool = rustix::fs::open(&image.directory, directory, Mode::empty())
        .map_err(|errno| kernel("open", format!("pool `{}`", image.pool), errno))?;
    let access = if is_read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    // Not waiting: a plugin's path may lead to a named pipe.
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_confined(&pool, image.path.as_str(), flags)
        .map_err(|errno| image.failed("open", errno))?;
    let observation = observe(&file).map_err(|errno| kernel("statx", image, errno))?;
    if observation.kind == FileType::RegularFile {
        return Ok(file);
    }
    Err(image.refuse("it is not an image"))
}

fn identity_of(image: &PoolPlace, file: &OwnedFd) -> Result<Identity, MountError> {
    observe(file)
        .map(|observation| observation.identity)
        .map_err(|errno| kernel("statx", image, errno))
}
