//! Images as loop devices: attach, keep, find again, release.
//!
//! The kernel gives the number of a released loop device to the next requester. So a binding is identified only by device and inode of the
//! backing file, read through a descriptor that keeps the binding while it is open.

mod holders;
mod sysfs;
mod tag;

pub(crate) use holders::{attached_below, holders_of, lying_on};
pub(crate) use tag::{Tag, digits};

use crate::block::{BlockDevice, BlockRecord, DeviceNumber, access, reopen};
use crate::failure::kernel;
use crate::observe::Identity;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use sysfs::LoopName;
use wasmount_core::mounter::MountError;
use wasmount_sys::loop_device as sys;

/// The kernel's device that allocates unbound loop devices (loop(4)).
const CONTROL: &str = "/dev/loop-control";
/// How often another process may take the free device before this host binds it. Each time that process makes progress, so only an endless series of
/// competing processes could reach this bound.
const ATTEMPTS: usize = 128;

/// Advice for a container that does not see the node's devices.
const MOUNT_DEV: &str =
    "if the host runs in a container, mount the node's /dev into it (a hostPath volume at /dev)";

/// A bound loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) number: DeviceNumber,
    /// The file behind it.
    pub(crate) backing: Identity,
    /// The block device, if that file is the node of a block device. `None`: it is not a device node.
    pub(crate) device: Option<DeviceNumber>,
    /// The tag of this host. `None`: the device does not belong to this host.
    pub(crate) tag: Option<Tag>,
    /// The kernel detaches the device when the last user closes it.
    pub(crate) autoclear: bool,
    pub(crate) read_only: bool,
}

/// A bound loop device, opened for reading. The binding to the same file lasts while it is open.
type OpenDevice = (OwnedFd, LoopName, Attached);

impl Attached {
    /// The record of the device for the journal.
    pub(crate) fn record(&self) -> BlockRecord {
        BlockRecord {
            number: self.number,
            backing: Some(self.backing),
        }
    }
}

/// Binds a file or a block device to a new loop device, which the kernel detaches when the last user closes it. For write access, `image` must be
/// opened for reading and writing. If it cannot be written, the loop device reports that it is read-only.
#[tracing::instrument(level = "debug", skip_all, name = "attach loop device")]
pub(crate) fn attach(
    image: &OwnedFd,
    read_only: bool,
    tag: &Tag,
) -> Result<BlockDevice, MountError> {
    let control = open_control()?;
    for _ in 0..ATTEMPTS {
        let free = sys::free_number(&control)
            .map_err(|errno| failed("LOOP_CTL_GET_FREE", Path::new(CONTROL), errno))?;
        if let Some(device) = bind(&LoopName::numbered(free), image, read_only, tag)? {
            return Ok(device);
        }
    }
    Err(MountError::out_of_resources(
        "attaching a loop device",
        format!("other processes took each of {ATTEMPTS} free ones first; try again"),
    ))
}

/// Makes a loop device outlive the process that opened it, until it is released.
pub(crate) fn keep(device: &BlockDevice) -> Result<(), MountError> {
    sys::set_autoclear(&device.file, false)
        .map_err(|errno| failed("LOOP_SET_STATUS64", &device.path, errno))
}

/// Unbinds a loop device that is still bound to the recorded file. If the device is in use, the kernel detaches it when its last user closes it. A
/// device that is already gone, or that is bound to another file by now, is a success.
pub(crate) fn release(record: &BlockRecord) -> Result<(), MountError> {
    let Some((file, name, _)) = find(record)? else {
        return Ok(());
    };
    match sys::detach(&file) {
        Ok(()) | Err(Errno::NXIO) => Ok(()),
        Err(errno) => Err(failed("LOOP_CLR_FD", &name.path(), errno)),
    }
}

/// Opens a loop device that is still bound to the recorded file, for writing if possible.
pub(crate) fn open(record: &BlockRecord) -> Result<Option<BlockDevice>, MountError> {
    let Some((held, name, attached)) = find(record)? else {
        return Ok(None);
    };
    let path = name.path();
    let file = if attached.read_only {
        held
    } else {
        reopen(&held, OFlags::RDWR).map_err(|errno| kernel("open", path.display(), errno))?
    };
    Ok(Some(BlockDevice {
        file,
        number: attached.number,
        path,
        backing: Some(attached.backing),
        storage: None,
        is_read_only: attached.read_only,
    }))
}

/// Whether a loop device is still bound to the file of a record.
pub(crate) fn is_bound(record: &BlockRecord) -> Result<bool, MountError> {
    Ok(find(record)?.is_some())
}

/// The binding of a device. `None`: it is not a loop device, or it is not bound.
pub(crate) fn status(number: DeviceNumber) -> Result<Option<Attached>, MountError> {
    Ok(open_bound(number)?.map(|(_, _, attached)| attached))
}

/// Makes the loop device adopt the current size of the file behind it.
pub(crate) fn take_size(device: &BlockDevice) -> Result<(), MountError> {
    sys::set_capacity(&device.file)
        .map_err(|errno| failed("LOOP_SET_CAPACITY", &device.path, errno))
}

/// Path of the file behind a loop device, or its path before the file was removed, as this process sees it. It serves messages and the search for
/// mounts below a directory. It is not an identity: another file may have this name by now, and the kernel cuts paths at 4 KiB.
pub(crate) fn backing_path(number: DeviceNumber) -> Option<PathBuf> {
    LoopName::of(number)?.backing_path()
}

/// Whether the file behind a loop device, last known by this name, was removed. Nothing is opened, and storage is not accessed.
pub(crate) fn is_backing_removed(number: DeviceNumber, name: &str) -> bool {
    LoopName::of(number).is_some_and(|device| device.is_backing_removed(name))
}

/// Binds a loop device that was free. `None`: another process took it.
fn bind(
    name: &LoopName,
    image: &OwnedFd,
    read_only: bool,
    tag: &Tag,
) -> Result<Option<BlockDevice>, MountError> {
    let Some((file, number)) = open_node(name, access(read_only))? else {
        return Ok(None);
    };
    let path = name.path();
    match sys::configure(&file, image, read_only, &tag.to_name()) {
        Ok(()) => {}
        Err(Errno::BUSY) => return Ok(None),
        Err(errno) => return Err(failed("LOOP_CONFIGURE", &path, errno)),
    }
    let status = sys::status(&file).map_err(|errno| failed("LOOP_GET_STATUS64", &path, errno))?;
    Ok(Some(BlockDevice {
        file,
        number,
        path,
        backing: Some(identity(&status)),
        storage: None,
        is_read_only: status.is_read_only,
    }))
}

/// The device of a record, if it is still bound to the recorded file.
fn find(record: &BlockRecord) -> Result<Option<OpenDevice>, MountError> {
    // A record without a backing file describes a device that this host must not open or release.
    let Some(backing) = record.backing else {
        return Ok(None);
    };
    let held = open_bound(record.number)?;
    Ok(held.filter(|(_, _, attached)| attached.backing == backing))
}

fn open_bound(number: DeviceNumber) -> Result<Option<OpenDevice>, MountError> {
    // An unbound loop device is not even opened.
    let bound = LoopName::of(number).filter(LoopName::is_bound);
    bound.map_or(Ok(None), hold)
}

fn hold(name: LoopName) -> Result<Option<OpenDevice>, MountError> {
    let Some((file, number)) = open_node(&name, OFlags::RDONLY)? else {
        return Ok(None);
    };
    let status = match sys::status(&file) {
        Ok(status) => status,
        Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(failed("LOOP_GET_STATUS64", &name.path(), errno)),
    };
    let attached = Attached {
        number,
        backing: identity(&status),
        device: (status.backing_device != 0).then(|| DeviceNumber::of_raw(status.backing_device)),
        tag: Tag::from_name(&status.name),
        autoclear: status.is_autoclear,
        read_only: status.is_read_only,
    };
    Ok(Some((file, name, attached)))
}

fn identity(status: &sys::Status) -> Identity {
    Identity {
        device_major: status.backing_major,
        device_minor: status.backing_minor,
        inode: status.backing_inode,
    }
}

fn open_control() -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(CONTROL, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NODEV) => Err(MountError::unusable(
            CONTROL,
            format!("it is missing; load the kernel's module `loop`, and {MOUNT_DEV}"),
        )),
        opened => opened.map_err(|errno| kernel("open", CONTROL, errno)),
    }
}

/// Opens the node of a loop device and verifies that it is the node of that device. `None`: the device was removed, or is being removed.
fn open_node(
    name: &LoopName,
    access: OFlags,
) -> Result<Option<(OwnedFd, DeviceNumber)>, MountError> {
    let Some(number) = name.number() else {
        return Ok(None);
    };
    let path = name.path();
    let unusable = |reason| MountError::unusable(path.display(), format!("{reason}; {MOUNT_DEV}"));
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => file,
        // Returned while the kernel unbinds or removes the device (`lo_open`).
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::NOENT) if name.number().is_none() => return Ok(None),
        Err(Errno::NOENT) => {
            return Err(unusable("the kernel has this device, but it is not there"));
        }
        Err(errno) => return Err(kernel("open", path.display(), errno)),
    };
    let found = fstat(&file).map_err(|errno| kernel("fstat", path.display(), errno))?;
    if DeviceNumber::of_node(&found) != Some(number) {
        return Err(unusable("it is not the device that the kernel calls so"));
    }
    Ok(Some((file, number)))
}

fn failed(request: &str, path: &Path, errno: Errno) -> MountError {
    kernel(&format!("ioctl({request})"), path.display(), errno)
}

#[cfg(test)]
mod tests;
