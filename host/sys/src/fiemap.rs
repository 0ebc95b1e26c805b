//! The location of a file's data on its device (`FS_IOC_FIEMAP`, Documentation/filesystems/fiemap.rst).

pub use linux_raw_sys::ioctl::{FIEMAP_EXTENT_LAST, FIEMAP_EXTENT_SHARED, FIEMAP_EXTENT_UNWRITTEN};
use linux_raw_sys::ioctl::{FIEMAP_FLAG_SYNC, FS_IOC_FIEMAP};
use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl};
use std::os::fd::AsFd;

/// Maximum number of extents of one answer: 28 KiB.
pub const EXTENTS: u32 = 512;
const FIEMAP: Opcode = FS_IOC_FIEMAP as Opcode;

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// Start in the file, in bytes.
    pub logical: u64,
    /// Start on the device, in bytes, as far as the flags say that it is known.
    pub physical: u64,
    /// Length in bytes.
    pub length: u64,
    /// Currently zero.
    pub reserved: [u64; 2],
    /// [`FIEMAP_EXTENT_LAST`] and others of `linux/fiemap.h`.
    pub flags: u32,
    /// Currently zero.
    pub reserved_flags: [u32; 3],
}

/// `struct fiemap`, with space for its extents.
#[repr(C)]
struct Request {
    /// Start and length, in bytes.
    range: [u64; 2],
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS as usize],
}

/// The first extents in a range of a file, in order, at most [`EXTENTS`]; the first and the last may extend beyond the range. Earlier writes have a
/// location on the device afterwards. `EOPNOTSUPP`: the file system does not support the request.
pub fn extents(file: impl AsFd, start: u64, length: u64) -> Result<Vec<Extent>> {
    let request = query(file, start, length, EXTENTS)?;
    let known = request.extents.iter().take(request.mapped as usize);
    Ok(known.copied().collect())
}

/// Writes all dirty pages of a file to its device, without a flush of the device's own cache. `EOPNOTSUPP`: as above.
pub fn write_out(file: impl AsFd) -> Result<()> {
    query(file, 0, 1, 0).map(|_| ())
}

fn query(file: impl AsFd, start: u64, length: u64, count: u32) -> Result<Request> {
    let mut request = Request {
        range: [start, length],
        flags: FIEMAP_FLAG_SYNC,
        mapped: 0,
        count: count.min(EXTENTS),
        reserved: 0,
        extents: [Extent::default(); EXTENTS as usize],
    };
    // SAFETY: the request reads a `struct fiemap` and fills at most `count` of the extents after it.
    unsafe { ioctl(file, Updater::<FIEMAP, Request>::new(&mut request)) }?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::fs::File;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Extent>(), 56);
        assert_eq!(size_of::<Request>(), 32 + 56 * EXTENTS as usize);
    }

    #[test]
    fn a_file_system_without_extents_says_so() {
        let file = File::open("/proc/self/status").unwrap();
        assert_eq!(extents(&file, 0, 1).unwrap_err(), Errno::OPNOTSUPP);
    }
}
