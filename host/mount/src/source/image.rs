//! Attaches an image of a pool as a loop device: it is opened by `confine`, and refused while any other loop device uses it.
//!
//! Two file systems of one kernel on one image would destroy it. A plugin may name one image for two volumes, and a volume's own loop device outlives
//! its stage while a mount of it exists: at a target, or in another mount namespace.

use crate::block::loop_device::{self, Attached, Tag};
use crate::block::{BlockDevice, access};
use crate::confine::open_confined;
use crate::exclusive::{Claims, retry};
use crate::failure::kernel;
use crate::observe::{Identity, identity as identity_of, observe};
use crate::plan::PoolPlace;
use crate::pool::refuse_leaving;
use crate::source::open_pool;
use rustix::fs::{FileType, OFlags};
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Images that a call of this process is checking and binding, so that of two concurrent calls the second sees what the first has bound.
static CLAIMED: Claims<Identity> = Claims::new();

/// Attaches the image for a volume, after no other loop device uses it.
///
/// It waits for a moment: the kernel unbinds a released device only when the last program that opened it closes it.
pub(crate) fn attach(
    image: &PoolPlace,
    is_read_only: bool,
    tag: &Tag,
) -> Result<BlockDevice, MountError> {
    refuse_leaving(open_pool(image)?, image)?;
    let file = open(image, is_read_only)?;
    let identity = identity_of(&file, image)?;
    let mut by = String::new();
    let attached = retry(|| {
        let Some(_claim) = CLAIMED.claim(identity) else {
            by = "another call of this host, which attaches it".to_owned();
            return Ok(None);
        };
        let holders = loop_device::holders_of(&file)?;
        match holders.iter().find(|it| conflicts(it, is_read_only)) {
            None => bind(image, &file, is_read_only, tag).map(Some),
            Some(other) => {
                by = described(other);
                Ok(None)
            }
        }
    })?;
    attached.ok_or_else(|| MountError::in_use(image, by))
}

/// A second device of the same image, which refuses writes.
pub(crate) fn attach_read_only(image: &PoolPlace, tag: &Tag) -> Result<BlockDevice, MountError> {
    loop_device::attach(&open(image, true)?, true, tag)
}

/// The loop devices that use the image.
pub(crate) fn holders(image: &PoolPlace) -> Result<Vec<Attached>, MountError> {
    loop_device::holders_of(&open(image, true)?)
}

/// The identity of the file.
pub(crate) fn identity(image: &PoolPlace) -> Result<Identity, MountError> {
    identity_of(open(image, true)?, image)
}

/// Its size.
pub(crate) fn size_bytes(image: &PoolPlace) -> Result<u64, MountError> {
    let file = open(image, true)?;
    observe(&file)
        .map(|observation| observation.size_bytes)
        .map_err(|errno| kernel("statx", image, errno))
}

/// Binds the image, and checks once more: another process may have bound it since the first check. In this case our device is released, and the
/// client's next call tries again.
fn bind(
    image: &PoolPlace,
    file: &OwnedFd,
    is_read_only: bool,
    tag: &Tag,
) -> Result<BlockDevice, MountError> {
    let device = loop_device::attach(file, is_read_only, tag)?;
    let holders = loop_device::holders_of(file)?;
    let is_other = |it: &&Attached| it.number != device.number && conflicts(it, is_read_only);
    match holders.iter().find(is_other) {
        None => Ok(device),
        Some(other) => Err(MountError::in_use(image, described(other))),
    }
}

/// Whether a further loop device of the image would destroy it, whatever volume the existing one belongs to: a volume's own device exists as long as
/// a mount of it does.
fn conflicts(holder: &Attached, is_read_only: bool) -> bool {
    !(holder.read_only && is_read_only)
}

fn described(holder: &Attached) -> String {
    format!(
        "the loop device {}; two users of one image would destroy it (`losetup -l` and `lsblk` on the node show its users)",
        holder.number
    )
}

fn open(image: &PoolPlace, is_read_only: bool) -> Result<OwnedFd, MountError> {
    let pool = open_pool(image)?;
    // The open must not block: a plugin's path may lead to a named pipe.
    let flags = access(is_read_only) | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_confined(&pool, image.path.as_str(), flags)
        .map_err(|errno| image.failed("open", errno))?;
    let observation = observe(&file).map_err(|errno| kernel("statx", image, errno))?;
    if observation.kind == FileType::RegularFile {
        return Ok(file);
    }
    Err(image.refuse("it is not an image"))
}

#[cfg(test)]
mod tests;
