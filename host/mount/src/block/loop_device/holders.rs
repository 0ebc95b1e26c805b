//! The loop devices of a file or a device: filtered by what the kernel lists, and only then asked themselves.
//!
//! `LOOP_GET_STATUS64` looks at the file behind a device (`loop_get_status`), so one on a dead server blocks the caller; and one that is passed
//! over may be the other user that destroys a file system. So a device is passed over only where its path says that it cannot be meant, and
//! what any other does not tell is an error.

use super::sysfs::{self, LoopName};
use super::{Attached, hold};
use crate::block::DeviceNumber;
use crate::failure::{io, kernel};
use crate::mountinfo::{self, MountLine};
use crate::observe::{Identity, identity, mount_id};
use rustix::fs::fstat;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wasmount_core::mounter::MountError;

/// A file whose loop devices are looked for, and what can be told of a path without opening it.
struct Sought {
    identity: Identity,
    /// Its last name. `None`: it cannot be told.
    name: Option<OsString>,
    /// It has other names (hard links).
    has_other_names: bool,
    /// Of the file system that it lies in, as the mount table has it: btrfs tells `statx` another number. `None`: it cannot be told.
    file_system: Option<String>,
    table: Vec<MountLine>,
}

/// All loop devices that are bound to this file, those of others too.
///
/// Asked are those whose path ends like the file's own, which a rename changes for both. Under another name the file can only be a hard link,
/// or the file as a mount of its own; what lies in another file system is neither.
pub(crate) fn holders_of(file: &OwnedFd) -> Result<Vec<Attached>, MountError> {
    let sought = Sought::of(file)?;
    let mut found = ask(|path| sought.may_be_at(path))?;
    found.retain(|attached| attached.backing == sought.identity);
    Ok(found)
}

/// All loop devices whose file lies below one of these directories, or that do not tell where it lies.
pub(crate) fn attached_below(directories: &[PathBuf]) -> Result<Vec<Attached>, MountError> {
    let is_below = |path: &Path| directories.iter().any(|it| path.starts_with(it));
    ask(|path| path.is_none_or(is_below))
}

/// All loop devices that lie on one of these devices, under whatever path its node was opened: kubelet opens it at a target path.
///
/// Passed over are those whose path lies with a server: nobody keeps nodes of devices there, and it may be dead.
pub(crate) fn lying_on(devices: &[DeviceNumber]) -> Result<Vec<Attached>, MountError> {
    let table = mountinfo::read()?;
    let may_be_node =
        |path: &Path| mountinfo::covering(&table, path).is_none_or(MountLine::may_hold_nodes);
    let mut found = ask(|path| path.is_none_or(may_be_node))?;
    found.retain(|attached| attached.device.is_some_and(|it| devices.contains(&it)));
    Ok(found)
}

impl Sought {
    fn of(file: &OwnedFd) -> Result<Self, MountError> {
        let what = "an image";
        let identity = identity(file, what)?;
        let links = fstat(file)
            .map_err(|errno| kernel("fstat", what, errno))?
            .st_nlink;
        let mount = mount_id(file).map_err(|errno| kernel("statx", what, errno))?;
        // As the kernel spells the path behind a loop device: a removed file has its mark in both.
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|error| io("readlink", what, &error))?;
        let table = mountinfo::read()?;
        let own = table.iter().find(|line| line.mount_id == mount);
        Ok(Self {
            identity,
            name: last_name(&path),
            has_other_names: links > 1,
            file_system: own.map(|line| line.device.clone()),
            table,
        })
    }

    /// Whether the file behind a loop device of this path can be the one. What cannot be told is yes.
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
        let is_near = self
            .file_system
            .as_ref()
            .is_none_or(|it| *it == line.device);
        is_near && (self.has_other_names || is_a_mount)
    }
}

/// Asks all that are bound and that this does not sort out by the path of their file.
fn ask(is_meant: impl Fn(Option<&Path>) -> bool) -> Result<Vec<Attached>, MountError> {
    let is_meant = |name: &LoopName| is_meant(name.backing_path().as_deref());
    let mut found = Vec::new();
    for name in sysfs::bound()?.into_iter().filter(is_meant) {
        // Once it is held, it is bound to one file: before, another may have taken it.
        let held = hold(name)?.filter(|(_, name, _)| is_meant(name));
        found.extend(held.map(|(_, _, attached)| attached));
    }
    Ok(found)
}

/// The last name of a path, without any mark of a removed file: a file may be called so.
fn last_name(path: &Path) -> Option<OsString> {
    let mut name = path.file_name()?.as_bytes();
    while let Some(rest) = name.strip_suffix(sysfs::DELETED) {
        name = rest;
    }
    Some(OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests;
