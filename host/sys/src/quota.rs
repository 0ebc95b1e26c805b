//! Project quotas: the project of a file (`FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`) and the limit of a project (`quotactl_fd(2)`).

use crate::check;
use libc::dqblk;
use linux_raw_sys::general::{FS_XFLAG_PROJINHERIT, fsxattr};
use linux_raw_sys::ioctl::{FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR};
use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl};
use std::os::fd::{AsFd, AsRawFd};

const GET_ATTRIBUTES: Opcode = FS_IOC_FSGETXATTR as Opcode;
const SET_ATTRIBUTES: Opcode = FS_IOC_FSSETXATTR as Opcode;
/// `PRJQUOTA` of `linux/quota.h`.
const PROJECT_QUOTA: i32 = 2;
/// Unit of block limits, in bytes (`QIF_DQBLKSIZE`).
const LIMIT_UNIT: u64 = 1024;

/// Limit and usage of a project, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectUsage {
    /// 0: no limit.
    pub limit_bytes: u64,
    /// Space that its files use.
    pub used_bytes: u64,
}

/// The project of a file. 0: none.
pub fn project(file: impl AsFd) -> Result<u32> {
    Ok(attributes(file)?.fsx_projid)
}

/// Puts a file into a project. With `inherit`, which is for directories, later entries inherit the project.
pub fn set_project(file: impl AsFd, project: u32, inherit: bool) -> Result<()> {
    let mut attributes = attributes(&file)?;
    attributes.fsx_projid = project;
    attributes.fsx_xflags &= !FS_XFLAG_PROJINHERIT;
    attributes.fsx_xflags |= u32::from(inherit) * FS_XFLAG_PROJINHERIT;
    // SAFETY: the request reads a `struct fsxattr`.
    unsafe { ioctl(file, Setter::<SET_ATTRIBUTES, fsxattr>::new(attributes)) }
}

/// Limit and usage of a project on the file system of `file`. An error if project quotas are not enforced.
pub fn project_usage(file: impl AsFd, project: u32) -> Result<ProjectUsage> {
    let mut quota = no_quota();
    quotactl(file, libc::Q_GETQUOTA, project, &mut quota)?;
    Ok(ProjectUsage {
        limit_bytes: quota.dqb_bhardlimit.saturating_mul(LIMIT_UNIT),
        used_bytes: quota.dqb_curspace,
    })
}

/// Limits the total space of a project's files. 0 removes the limit.
pub fn set_project_limit(file: impl AsFd, project: u32, bytes: u64) -> Result<()> {
    let limit = bytes.div_ceil(LIMIT_UNIT);
    let mut quota = dqblk {
        dqb_bhardlimit: limit,
        dqb_bsoftlimit: limit,
        dqb_valid: libc::QIF_BLIMITS,
        ..no_quota()
    };
    quotactl(file, libc::Q_SETQUOTA, project, &mut quota)
}

fn attributes(file: impl AsFd) -> Result<fsxattr> {
    // SAFETY: the request fills a `struct fsxattr`.
    unsafe { ioctl(file, Getter::<GET_ATTRIBUTES, fsxattr>::new()) }
}

fn no_quota() -> dqblk {
    // SAFETY: the structure contains only integers, for which zero is a valid value.
    unsafe { std::mem::zeroed() }
}

fn quotactl(file: impl AsFd, command: i32, project: u32, quota: &mut dqblk) -> Result<()> {
    let (call, file) = (libc::SYS_quotactl_fd, file.as_fd().as_raw_fd());
    let command = libc::QCMD(command, PROJECT_QUOTA);
    // SAFETY: both commands take a project's number and a `struct if_dqblk`, which this function owns until the call returns.
    check(unsafe { libc::syscall(call, file, command, project, &raw mut *quota) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_the_kernels_if_dqblk() {
        assert_eq!(size_of::<dqblk>(), 72);
    }

    #[test]
    fn where_there_are_no_projects_the_error_says_so() {
        let directory = std::fs::File::open("/proc").unwrap();
        assert!(project(&directory).is_err());
        assert!(project_usage(&directory, 1).is_err());
    }
}
