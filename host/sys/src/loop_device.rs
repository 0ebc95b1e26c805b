//! Loop devices (loop(4)): a file or another block device as a block device.

use crate::check;
use linux_raw_sys::loop_device as linux;
use rustix::fs::{Dev, major, minor};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl};
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of a name: the kernel ends its field with a NUL.
pub const NAME_BYTES: usize = linux::LO_NAME_SIZE as usize - 1;

const AUTOCLEAR: u32 = linux::LO_FLAGS_AUTOCLEAR as u32;
const READ_ONLY: u32 = linux::LO_FLAGS_READ_ONLY as u32;

const CONFIGURE: Opcode = linux::LOOP_CONFIGURE as Opcode;
const GET_STATUS: Opcode = linux::LOOP_GET_STATUS64 as Opcode;
const SET_STATUS: Opcode = linux::LOOP_SET_STATUS64 as Opcode;
const SET_CAPACITY: Opcode = linux::LOOP_SET_CAPACITY as Opcode;
const DETACH: Opcode = linux::LOOP_CLR_FD as Opcode;

/// The name of a loop device, set by the program that bound it (`lo_file_name`) and padded with NUL. The kernel only stores it.
pub type Name = [u8; NAME_BYTES];

/// The binding of a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Major device number of the file's file system, as `statx(2)` reports it.
    pub backing_major: u32,
    /// Minor device number, as above.
    pub backing_minor: u32,
    /// Inode number of the file.
    pub backing_inode: u64,
    /// The block device, if the file is a device node, in the encoding of `stat(2)`. 0: it is not a node.
    pub backing_device: Dev,
    /// The kernel unbinds it when the last user closes it.
    pub is_autoclear: bool,
    /// It refuses writes.
    pub is_read_only: bool,
    /// The name that was set.
    pub name: Name,
}

/// The number of a loop device that is currently unused; a device is created if there is none. `control` is `/dev/loop-control`.
pub fn free_number(control: impl AsFd) -> Result<u32> {
    let control = control.as_fd().as_raw_fd();
    // SAFETY: the request takes no argument.
    let number = check(unsafe { libc::ioctl(control, linux::LOOP_CTL_GET_FREE as _) }.into())?;
    u32::try_from(number).map_err(|_| Errno::RANGE)
}

/// Binds an unbound loop device to a file in one step, so that it is never visible without name and flags. The kernel unbinds it when the last user
/// closes it. A device that cannot be written through either descriptor becomes read-only, even if that was not requested. `EBUSY`: it is bound.
pub fn configure(device: impl AsFd, file: impl AsFd, read_only: bool, name: &Name) -> Result<()> {
    // SAFETY: the structure contains only integers, for which zero is a valid value.
    let mut config: linux::loop_config = unsafe { std::mem::zeroed() };
    config.fd = file.as_fd().as_raw_fd().cast_unsigned();
    config.info.lo_flags = AUTOCLEAR | (u32::from(read_only) * READ_ONLY);
    let field = config.info.lo_file_name.iter_mut();
    field.zip(name).for_each(|(to, from)| *to = *from);
    // SAFETY: the request reads a `struct loop_config`.
    unsafe { ioctl(device, Setter::<CONFIGURE, _>::new(config)) }
}

/// The binding of a loop device. `ENXIO`: it is not bound.
pub fn status(device: impl AsFd) -> Result<Status> {
    let info = information(device)?;
    let (name, _) = info.lo_file_name.split_first_chunk().ok_or(Errno::RANGE)?;
    // The kernel encodes device numbers as in `stat(2)`, which rustix decodes.
    Ok(Status {
        backing_major: major(info.lo_device),
        backing_minor: minor(info.lo_device),
        backing_inode: info.lo_inode,
        backing_device: info.lo_rdevice,
        is_autoclear: info.lo_flags & AUTOCLEAR != 0,
        is_read_only: info.lo_flags & READ_ONLY != 0,
        name: *name,
    })
}

/// Sets whether the kernel unbinds it when the last user closes it.
pub fn set_autoclear(device: impl AsFd, autoclear: bool) -> Result<()> {
    let mut info = information(&device)?;
    info.lo_flags &= !AUTOCLEAR;
    info.lo_flags |= u32::from(autoclear) * AUTOCLEAR;
    // SAFETY: the request reads a `struct loop_info64`.
    unsafe { ioctl(device, Setter::<SET_STATUS, _>::new(info)) }
}

/// Adopts the current size of the file.
pub fn set_capacity(device: impl AsFd) -> Result<()> {
    // SAFETY: the request takes no argument.
    unsafe { ioctl(device, NoArg::<SET_CAPACITY>::new()) }
}

/// Unbinds it, at the latest when the last other user closes it. `ENXIO`: it is not bound.
pub fn detach(device: impl AsFd) -> Result<()> {
    // SAFETY: the request takes no argument.
    unsafe { ioctl(device, NoArg::<DETACH>::new()) }
}

fn information(device: impl AsFd) -> Result<linux::loop_info64> {
    // SAFETY: the request fills a `struct loop_info64`.
    unsafe { ioctl(device, Getter::<GET_STATUS, _>::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_loop_device() {
        let file = tempfile::tempfile().unwrap();
        let name = [b'x'; NAME_BYTES];
        assert_eq!(free_number(&file), Err(Errno::NOTTY));
        assert_eq!(status(&file), Err(Errno::NOTTY));
        assert_eq!(configure(&file, &file, false, &name), Err(Errno::NOTTY));
        assert_eq!(set_autoclear(&file, true), Err(Errno::NOTTY));
        assert_eq!(set_capacity(&file), Err(Errno::NOTTY));
        assert_eq!(detach(&file), Err(Errno::NOTTY));
    }

    #[test]
    fn the_longest_name_leaves_room_for_the_nul_at_its_end() {
        assert_eq!(NAME_BYTES, 63);
    }
}
