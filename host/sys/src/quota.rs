//! Project quotas: the project of a file (`FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`) and the limit of a project (`quotactl_fd(2)`). Apart
//! because neither rustix nor libc wraps the calls. xfs and ext4 answer both alike.
//!
//! It knows nothing of pools: which project a tree gets is decided in the mount room.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct FileAttributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

/// `FS_IOC_FSGETXATTR`: `_IOR('X', 31, struct fsxattr)`.
const GET_ATTRIBUTES: libc::c_ulong = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`: `_IOW('X', 32, struct fsxattr)`.
const SET_ATTRIBUTES: libc::c_ulong = 0x401c_5820;
/// `FS_XFLAG_PROJINHERIT`: what is made in the directory gets its project.
const INHERIT: u32 = 0x200;

/// `struct if_dqblk` of `linux/quota.h`.
#[repr(C)]
#[derive(Default)]
struct DiskQuota {
    block_hard_limit: u64,
    block_soft_limit: u64,
    space: u64,
    inode_hard_limit: u64,
    inode_soft_limit: u64,
    inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
}

/// `QCMD(Q_GETQUOTA, PRJQUOTA)`.
const GET_QUOTA: libc::c_uint = (0x80_0007 << 8) | 2;
/// `QCMD(Q_SETQUOTA, PRJQUOTA)`.
const SET_QUOTA: libc::c_uint = (0x80_0008 << 8) | 2;
/// `QIF_BLIMITS`: the block limits of the structure count.
const BLOCK_LIMITS: u32 = 1;
/// Block limits are in units of this many bytes (`QIF_DQBLKSIZE`).
const LIMIT_UNIT: u64 = 1024;

/// Limit and use of a project, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectUsage {
    /// 0: none.
    pub limit_bytes: u64,
    /// What its files take.
    pub used_bytes: u64,
}

/// The project of a file; 0 is none.
pub fn project(file: impl AsFd) -> Result<u32, Errno> {
    Ok(attributes(&file)?.project)
}

/// Puts a file into a project. With `inherit`, which is for directories, what is made in it later gets it too.
pub fn set_project(file: impl AsFd, project: u32, inherit: bool) -> Result<(), Errno> {
    let mut attributes = attributes(&file)?;
    attributes.project = project;
    attributes.flags = (attributes.flags & !INHERIT) | (u32::from(inherit) * INHERIT);
    request(&file, SET_ATTRIBUTES, &mut attributes)
}

/// Limit and use of a project on the file system of `file`. An error where project quotas are not in force.
pub fn project_usage(file: impl AsFd, project: u32) -> Result<ProjectUsage, Errno> {
    let mut quota = DiskQuota::default();
    quotactl(&file, GET_QUOTA, project, &mut quota)?;
    Ok(ProjectUsage {
        limit_bytes: quota.block_hard_limit.saturating_mul(LIMIT_UNIT),
        used_bytes: quota.space,
    })
}

/// Limits what the files of a project take together; 0 takes the limit away.
pub fn set_project_limit(file: impl AsFd, project: u32, bytes: u64) -> Result<(), Errno> {
    let limit = bytes.div_ceil(LIMIT_UNIT);
    let mut quota = DiskQuota {
        block_hard_limit: limit,
        block_soft_limit: limit,
        valid: BLOCK_LIMITS,
        ..DiskQuota::default()
    };
    quotactl(&file, SET_QUOTA, project, &mut quota)
}

fn attributes(file: &impl AsFd) -> Result<FileAttributes, Errno> {
    let mut attributes = FileAttributes::default();
    request(file, GET_ATTRIBUTES, &mut attributes)?;
    Ok(attributes)
}

fn request(
    file: &impl AsFd,
    request: libc::c_ulong,
    attributes: &mut FileAttributes,
) -> Result<(), Errno> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: both requests take a `struct fsxattr`, which is ours until the call returns.
    check(unsafe { libc::ioctl(file, request as _, &raw mut *attributes) }.into())
}

fn quotactl(
    file: &impl AsFd,
    command: libc::c_uint,
    project: u32,
    quota: &mut DiskQuota,
) -> Result<(), Errno> {
    let (call, file, quota) = (
        libc::SYS_quotactl_fd,
        file.as_fd().as_raw_fd(),
        &raw mut *quota,
    );
    // SAFETY: both commands take a project's number and a `struct if_dqblk`, which is ours until the call returns.
    check(unsafe { libc::syscall(call, file, command, project, quota) })
}

fn check(result: libc::c_long) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_that_the_requests_name() {
        assert_eq!(size_of::<FileAttributes>(), 28);
        assert_eq!((GET_ATTRIBUTES >> 16) & 0x3fff, 28);
        assert_eq!((SET_ATTRIBUTES >> 16) & 0x3fff, 28);
        assert_eq!(size_of::<DiskQuota>(), 72);
    }

    #[test]
    fn where_there_are_no_projects_the_error_says_so() {
        let directory = std::fs::File::open("/proc").unwrap();
        assert!(project(&directory).is_err());
        assert!(project_usage(&directory, 1).is_err());
    }
}
