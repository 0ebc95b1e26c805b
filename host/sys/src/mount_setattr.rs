//! `mount_setattr(2)`: flags of a mount by file descriptor.

use crate::check;
use linux_raw_sys::general::{MS_PRIVATE, mount_attr};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::os::fd::{AsFd, AsRawFd};

/// Clears, then sets flags of one mount, without its submounts, and makes it private: mount events are not propagated in either direction. `mount` is
/// a descriptor of the mount's root.
pub fn mount_setattr(
    mount: impl AsFd,
    set: MountAttrFlags,
    clear: MountAttrFlags,
) -> Result<(), Errno> {
    let attributes = mount_attr {
        attr_set: set.bits().into(),
        attr_clr: clear.bits().into(),
        propagation: MS_PRIVATE.into(),
        userns_fd: 0,
    };
    // SAFETY: the path is a NUL-terminated constant, the structure lives until the call returns and its size is given; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<mount_attr>(),
        )
    };
    check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_no_mount_is_refused_by_the_kernel() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let refused = mount_setattr(
            &reader,
            MountAttrFlags::MOUNT_ATTR_RDONLY,
            MountAttrFlags::empty(),
        );
        assert!(
            matches!(refused, Err(Errno::INVAL | Errno::PERM)),
            "{refused:?}"
        );
    }
}
