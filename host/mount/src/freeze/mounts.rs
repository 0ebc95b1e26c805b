//! Which mounts show images: by way of the loop devices that the mount table names.
//!
//! What is frozen is a clone of a mount that nobody sees: whoever unmounts meanwhile need not wait. A device is asked only if the file behind it has
//! a name that is looked for: asking about another may mean to ask a dead server.

use super::{Image, failed};
use crate::block::loop_device::{self, Attached};
use crate::block::{BlockRecord, DeviceNumber};
use crate::mountinfo::{self, MountLine};
use crate::observe::{mount_id, observe};
use crate::prepared_mount::clone_mount;
use rustix::fs::{Mode, OFlags, openat};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// How a root is opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A mount of a loop device. `None`: the device is not bound to that file any more, so it has none.
pub(super) fn of(record: &BlockRecord) -> Result<Option<OwnedFd>, MountError> {
    if !loop_device::is_bound(record)? {
        return Ok(None);
    }
    match open(&mountinfo::read()?, record.number) {
        Some(mount) => Ok(Some(mount)),
        None => Err(MountError::NotFound {
            what: format!("a mount of the loop device {}", record.number),
        }),
    }
}

/// The loop devices of images that can be written, and a clone of one mount of each.
pub(super) fn mounted(
    images: &[Image<'_>],
) -> Result<(Vec<BlockRecord>, Vec<OwnedFd>), MountError> {
    let identities = images.iter().map(|image| Ok(observe(image.file)?.identity));
    let wanted: HashSet<_> = identities
        .collect::<Result<_, _>>()
        .map_err(|errno| failed("statx", errno))?;
    let names: HashSet<_> = images.iter().map(|image| OsStr::new(image.name)).collect();
    let table = mountinfo::read()?;
    let devices: BTreeSet<_> = table.iter().filter_map(MountLine::block_device).collect();
    let (mut records, mut mounts) = (Vec::new(), Vec::new());
    for device in devices {
        let path = loop_device::backing_path(device);
        if !path.is_some_and(|path| path.file_name().is_some_and(|name| names.contains(name))) {
            continue;
        }
        let is_wanted =
            |attached: &Attached| wanted.contains(&attached.backing) && !attached.read_only;
        if let Some(attached) = loop_device::status(device)?.filter(is_wanted)
            && let Some(mount) = open(&table, device)
        {
            records.push(attached.record());
            mounts.push(aside(&mount).unwrap_or(mount));
        }
    }
    Ok((records, mounts))
}

/// The root of a clone of a mount. There is none of a mount that somebody made unbindable (mount_namespaces(7)).
fn aside(mount: &OwnedFd) -> Option<OwnedFd> {
    let clone = clone_mount(mount, "what is mounted of an image").ok()?;
    // A clone itself is opened as a path, through which nothing is frozen (open_tree(2)). The file keeps the clone alive.
    openat(&clone, c".", DIRECTORY, Mode::empty()).ok()
}

/// One mount of a device. Another mount may lie on it, or in its path: then the next one is tried.
fn open(table: &[MountLine], device: DeviceNumber) -> Option<OwnedFd> {
    let mut lines = table
        .iter()
        .filter(|line| line.block_device() == Some(device));
    lines.find_map(|line| {
        let mount = rustix::fs::open(&line.mount_point, DIRECTORY, Mode::empty()).ok()?;
        (mount_id(&mount) == Ok(line.mount_id)).then_some(mount)
    })
}
