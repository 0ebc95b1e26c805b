//! Freezing of a mounted file system (`ioctl_fsfreeze`, `FIFREEZE` and `FITHAW` of `linux/fs.h`; see fsfreeze(8)).

use linux_raw_sys::ioctl::{FIFREEZE, FITHAW};
use rustix::io::Result;
use rustix::ioctl::{NoArg, Opcode, ioctl};
use std::os::fd::AsFd;

const FREEZE: Opcode = FIFREEZE as Opcode;
const THAW: Opcode = FITHAW as Opcode;

/// Writes all data of the file system that contains a file to its device, and blocks writers from now on. `EBUSY`: it is frozen already.
/// `EOPNOTSUPP`: this file system cannot be frozen.
pub fn freeze(file: impl AsFd) -> Result<()> {
    // SAFETY: the kernel does not read the argument.
    unsafe { ioctl(file, NoArg::<FREEZE>::new()) }
}

/// Unblocks writers. `EINVAL`: it is not frozen.
pub fn thaw(file: impl AsFd) -> Result<()> {
    // SAFETY: the kernel does not read the argument.
    unsafe { ioctl(file, NoArg::<THAW>::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn what_is_no_file_of_a_disk_is_not_frozen() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        assert!(freeze(&pipe).is_err());
        assert_eq!(
            thaw(std::fs::File::open("/proc").unwrap()),
            Err(Errno::INVAL)
        );
    }
}
