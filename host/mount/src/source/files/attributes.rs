//! Owner, group and mode of what the host writes into a volume of files.
//!
//! It must not know which file something is.

use rustix::fs::{Gid, Mode, Stat, Uid};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Mode of directories, kubelet's own (`atomic_writer.go`).
pub(super) const DIRECTORY_MODE: u32 = 0o755;
/// What the group of a volume adds to a file: kubelet's `roMask` (`volume_linux.go`), since these files are not the pod's to write.
const GROUP_READS: u32 = 0o440;
/// What it adds to a directory: things that are made inside inherit the group.
const SET_GROUP: u32 = 0o2000;
/// The bits of `st_mode` that chmod(2) sets.
const MODE_BITS: u32 = 0o7777;

/// What a file or directory is to have. The owner is root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    group: u32,
    mode: u32,
}

impl Attributes {
    pub(super) fn of_directory(group: Option<u32>) -> Self {
        Self::with(DIRECTORY_MODE, SET_GROUP, group)
    }

    pub(super) fn of_file(mode: u32, group: Option<u32>) -> Self {
        Self::with(mode, GROUP_READS, group)
    }

    fn with(mode: u32, added: u32, group: Option<u32>) -> Self {
        Self {
            group: group.unwrap_or_else(|| Gid::ROOT.as_raw()),
            mode: if group.is_some() { mode | added } else { mode },
        }
    }

    /// Whether something has them.
    pub(super) fn are_of(self, status: &Stat) -> bool {
        status.st_uid == Uid::ROOT.as_raw()
            && status.st_gid == self.group
            && status.st_mode & MODE_BITS == self.mode
    }

    /// Gives them to something open. The mode last: a change of owner or group takes bits of it away (chown(2)).
    pub(super) fn give(self, descriptor: impl AsFd) -> Result<(), Errno> {
        if self.are_of(&rustix::fs::fstat(&descriptor)?) {
            return Ok(());
        }
        let group = Gid::from_raw(self.group);
        rustix::fs::fchown(&descriptor, Some(Uid::ROOT), Some(group))?;
        rustix::fs::fchmod(&descriptor, Mode::from_raw_mode(self.mode))
    }
}
