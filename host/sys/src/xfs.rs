//! Size and expansion of a mounted xfs (`ioctl_xfs_fsgrowfs(2)`, `ioctl_xfs_fsgeometry(2)`).

use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use std::os::fd::AsFd;

/// Sizes of an xfs: the used part of `struct xfs_fsop_geom` of `xfs/xfs_fs.h`.
#[repr(C)]
#[derive(Debug)]
pub struct Geometry {
    /// Size of a block, in bytes.
    pub block_bytes: u32,
    /// Extent size of the real-time section; of the groups size, count and log; sizes of sector and inode.
    sizes: [u32; 6],
    inodes_percent: u32,
    /// Number of blocks of the data section, which contains files and their names.
    pub data_blocks: u64,
    /// Number of blocks of the real-time section, a separate device. 0: there is none.
    pub realtime_blocks: u64,
    rest: [u64; 26],
}

/// `struct xfs_growfs_data` of `xfs/xfs_fs.h`.
#[repr(C)]
struct Growth {
    data_blocks: u64,
    inodes_percent: u32,
}

/// `XFS_IOC_FSGEOMETRY`.
const GEOMETRY: Opcode = opcode::read::<Geometry>(b'X', 126);
/// `XFS_IOC_FSGROWFSDATA`.
const GROW: Opcode = opcode::write::<Growth>(b'X', 110);

/// Sizes of the xfs that contains a file. `ENOTTY`: it is another file system.
pub fn geometry(file: impl AsFd) -> Result<Geometry> {
    // SAFETY: the request fills a `struct xfs_fsop_geom`.
    unsafe { ioctl(file, Getter::<GEOMETRY, Geometry>::new()) }
}

/// Expands the xfs that contains a file to this many blocks. The share that inodes may use does not change.
pub fn grow(file: impl AsFd, data_blocks: u64) -> Result<()> {
    let growth = Growth {
        data_blocks,
        inodes_percent: geometry(&file)?.inodes_percent,
    };
    // SAFETY: the request reads a `struct xfs_growfs_data`.
    unsafe { ioctl(file, Setter::<GROW, Growth>::new(growth)) }
}

#[cfg(test)]
mod tests;
