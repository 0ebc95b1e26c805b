//! Finds the mounts of images by the loop devices that the mount table lists.
//!
//! A detached clone of the mount is frozen, which no other process sees, so an unmount meanwhile does not have to wait. A device is queried only if
//! its backing file has a searched name: querying another device could access a dead server.

use super::{Image, failed};
use crate::block::loop_device::{self, Attached};
use crate::block::{BlockRecord, DeviceNumber};
use crate::encryption;
use crate::executor::clone_mount;
use crate::mountinfo::{self, MountLine};
use crate::observe::{mount_id, observe};
use rustix::fs::{Mode, OFlags, openat};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Flags with which a root is opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A mount of a loop device. `None`: the device is no longer bound to that file, so no mount shows it.
pub(super) fn of(record: &BlockRecord) -> Result<Option<OwnedFd>, MountError> {
    if !loop_device::is_bound(record)? {
        return Ok(None);
    }
    match open(&mountinfo::read()?, encryption::shown(record.number)) {
        Some(mount) => Ok(Some(mount)),
        None => Err(MountError::not_found(format!(
            "a mount of the loop device {}",
            record.number
        ))),
    }
}

/// The loop devices of images that are writable, and a clone of one mount of each.
pub(super) fn mounted(
    images: &[Image<'_>],
) -> Result<(Vec<BlockRecord>, Vec<OwnedFd>), MountError> {
    let identities = images.iter().map(|image| Ok(observe(image.file)?.identity));
    let backing_files: HashSet<_> = identities
        .collect::<Result<_, _>>()
        .map_err(|errno| failed("statx", errno))?;
    let names: HashSet<_> = images.iter().map(|image| OsStr::new(image.name)).collect();
    let table = mountinfo::read()?;
    let devices: BTreeSet<_> = table.iter().filter_map(MountLine::block_device).collect();
    let (mut records, mut mounts) = (Vec::new(), Vec::new());
    for device in devices {
        let storage = encryption::storage_of(device);
        let path = loop_device::backing_path(storage);
        if !path.is_some_and(|path| path.file_name().is_some_and(|name| names.contains(name))) {
            continue;
        }
        let is_writable_image =
            |attached: &Attached| backing_files.contains(&attached.backing) && !attached.read_only;
        if let Some(attached) = loop_device::status(storage)?.filter(is_writable_image)
            && let Some(mount) = open(&table, device)
        {
            records.push(attached.record());
            mounts.push(aside(&mount).unwrap_or(mount));
        }
    }
    Ok((records, mounts))
}

/// The root of a detached clone of a mount. `None` for a mount that was made unbindable (mount_namespaces(7)).
fn aside(mount: &OwnedFd) -> Option<OwnedFd> {
    let clone = clone_mount(mount, "what is mounted of an image").ok()?;
    // The clone itself is opened with `O_PATH`, which cannot freeze (open_tree(2)). The open file keeps the clone alive.
    openat(&clone, c".", DIRECTORY, Mode::empty()).ok()
}

/// Opens one mount of a device. If another mount covers it or its path, the next mount of the device is tried.
fn open(table: &[MountLine], device: DeviceNumber) -> Option<OwnedFd> {
    let mut lines = table
        .iter()
        .filter(|line| line.block_device() == Some(device));
    lines.find_map(|line| {
        let mount = rustix::fs::open(&line.mount_point, DIRECTORY, Mode::empty()).ok()?;
        (mount_id(&mount) == Ok(line.mount_id)).then_some(mount)
    })
}
