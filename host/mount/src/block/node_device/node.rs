//! The node of a block device in `/dev`, opened: checked by descriptor before anything of the device is touched.
//!
//! It is apart because opening is where a name turns into a device, and opening the wrong file has effects of its own: a tape rewinds, a
//! watchdog begins to count. It must not know facts.

use super::tree::{DeviceTree, KernelName};
use crate::block::DeviceNumber;
use crate::failure::kernel;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use wasmount_core::mounter::MountError;

/// A block device's node that has its number. The device itself is not open.
pub(super) struct Node {
    place: OwnedFd,
    number: DeviceNumber,
}

impl Node {
    /// Opens a node without opening the device. None: it is not there, or is still that of another device.
    pub(super) fn open(tree: &DeviceTree, name: &KernelName) -> Result<Option<Self>, MountError> {
        let Some(number) = tree.number(name) else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let directory = openat(CWD, tree.dev(), flags | OFlags::DIRECTORY, Mode::empty())
            .map_err(|errno| kernel("open", tree.dev().display(), errno))?;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&directory, name.below_dev(), flags, Mode::empty(), resolve);
        let place = match opened {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(kernel("openat2", name, errno)),
        };
        let found = fstat(&place).map_err(|errno| kernel("fstat", name, errno))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice {
            return Err(MountError::Unusable {
                what: tree.node(name).display().to_string(),
                reason: "it is not a block device; remove it, and let udev make the node anew"
                    .to_owned(),
            });
        }
        Ok((DeviceNumber::of_raw(found.st_rdev) == number).then_some(Self { place, number }))
    }

    pub(super) fn number(&self) -> DeviceNumber {
        self.number
    }

    /// Opens the device, without waiting for a medium.
    pub(super) fn reopen(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.place.as_raw_fd());
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty())
    }
}
