//! Finds the loop devices of a file or a device. The kernel's lists are filtered first; only the remaining devices are queried.
//!
//! `LOOP_GET_STATUS64` accesses the file behind a device (`loop_get_status`), so a device on a dead server blocks the caller. A device that is
//! skipped may be the second user that destroys a file system. So a device is skipped only if its path proves that it cannot be the one; a failed
//! query of any other device is an error.

use super::sysfs::{self, LoopName};
use super::{Attached, hold};
use crate::block::DeviceNumber;
use crate::failure::{io, kernel};
use crate::mountinfo::{self, MountLine};
use crate::observe::Identity;
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// A file whose loop devices are searched, with the facts that allow a comparison of paths without opening them.
struct Sought {
    identity: Identity,
    /// The last component of its path. `None`: unknown.
    name: Option<OsString>,
    /// The file has other names (hard links).
    has_other_names: bool,
    /// Device number of its file system, as the mount table shows it: on btrfs, `statx` reports another number. `None`: unknown.
    file_system: Option<DeviceNumber>,
    table: Vec<MountLine>,
}

/// All loop devices that are bound to this file, including those of other programs.
///
/// Devices are queried if the last component of their path equals that of the file; a rename changes both. Under another name the file can only be a
/// hard link or a bind mount of the file. A path on another file system can be neither.
pub(crate) fn holders_of(file: &OwnedFd) -> Result<Vec<Attached>, MountError> {
    let sought = Sought::of(file)?;
    let mut found = query(|path| sought.may_be_at(path))?;
    found.retain(|attached| attached.backing == sought.identity);
    Ok(found)
}

/// All loop devices whose backing file lies below one of these directories, or whose path is unknown.
pub(crate) fn attached_below(directories: &[PathBuf]) -> Result<Vec<Attached>, MountError> {
    let is_below = |path: &Path| directories.iter().any(|it| path.starts_with(it));
    query(|path| path.is_none_or(is_below))
}

/// All loop devices that lie on one of these devices, whatever path its node was opened by: kubelet opens it at a target path.
///
/// Devices whose path lies on a network file system are skipped: device nodes are not kept there, and the server may be dead.
pub(crate) fn lying_on(devices: &[DeviceNumber]) -> Result<Vec<Attached>, MountError> {
    let table = mountinfo::read()?;
    let may_be_node =
        |path: &Path| mountinfo::covering(&table, path).is_none_or(MountLine::may_hold_nodes);
    let mut found = query(|path| path.is_none_or(may_be_node))?;
    found.retain(|attached| attached.device.is_some_and(|it| devices.contains(&it)));
    Ok(found)
}

impl Sought {
    fn of(file: &OwnedFd) -> Result<Self, MountError> {
        let what = "an image";
        let fields = StatxFlags::INO | StatxFlags::NLINK | StatxFlags::MNT_ID;
        let status = statx(file, c"", AtFlags::EMPTY_PATH, fields)
            .map_err(|errno| kernel("statx", what, errno))?;
        // The form that the kernel uses for the path behind a loop device: both forms mark a removed file in the same way.
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|error| io("readlink", what, &error))?;
        let table = mountinfo::read()?;
        let own = table.iter().find(|line| line.mount_id == status.stx_mnt_id);
        Ok(Self {
            identity: Identity::of(&status),
            name: last_name(&path),
            has_other_names: status.stx_nlink > 1,
            file_system: own.map(|line| line.device),
            table,
        })
    }

    /// Whether the file behind a loop device with this path can be the searched one. If that cannot be determined, the answer is yes.
    fn may_be_at(&self, path: Option<&Path>) -> bool {
        let Some(path) = path else {
            return true;
        };
        if self.name.is_none() || last_name(path) == self.name {
            return true;
        }
        let Some(line) = mountinfo::covering(&self.table, path) else {
            return true;
        };
        let is_a_mount = line.mount_point == path;
        let is_near = self.file_system.is_none_or(|it| it == line.device);
        is_near && (self.has_other_names || is_a_mount)
    }
}

/// Queries all bound loop devices that the filter does not exclude by the path of their file.
fn query(is_meant: impl Fn(Option<&Path>) -> bool) -> Result<Vec<Attached>, MountError> {
    let is_meant = |name: &LoopName| is_meant(name.backing_path().as_deref());
    let mut found = Vec::new();
    for name in sysfs::bound()?.into_iter().filter(is_meant) {
        // The open descriptor fixes the binding. Before it was opened, another process may have rebound the device, so the filter runs again.
        let held = hold(name)?.filter(|(_, name, _)| is_meant(name));
        found.extend(held.map(|(_, _, attached)| attached));
    }
    Ok(found)
}

/// The last component of a path. A suffix that looks like the kernel's mark of a removed file is kept: a file may have such a name.
fn last_name(path: &Path) -> Option<OsString> {
    let mut name = path.file_name()?.as_bytes();
    while let Some(rest) = name.strip_suffix(sysfs::DELETED) {
        name = rest;
    }
    Some(OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests;
