//! Decides whether a device is formatted, used as it is, or refused. It is pure, and the only place that returns `Make`.
//!
//! Only a blank device is formatted, or one on which our own `mkfs` did not finish. Foreign, damaged or unclear content requires an administrator.

use super::content::Content;
use super::{BlockFilesystem, FsType, StorageAccess};
use crate::block::BlockDevice;
use wasmount_core::mounter::MountError;

/// The decision for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A file system is made, over whatever the device contains.
    Make(FsType),
    /// The existing file system is mounted.
    Use(FsType),
}

/// Decides. `is_unfinished`: our own `mkfs` was started on the device and its result was never mounted.
pub(super) fn decide(
    device: &BlockDevice,
    content: &Content,
    is_unfinished: bool,
    requested: &BlockFilesystem,
    access: StorageAccess,
) -> Result<Verdict, MountError> {
    let requested_type = requested.fs_type;
    let refuse = |reason: String| Err(MountError::unusable(device, reason));
    let make = || match access {
        StorageAccess::ReadWrite => Ok(Verdict::Make(requested_type)),
        StorageAccess::ReadOnly | StorageAccess::Untouched => Err(MountError::unusable(
            device,
            "it has no file system yet, and a read-only mount is requested; stage it once with a writable access mode",
        )),
    };
    match content {
        Content::Foreign(name) => refuse(format!(
            "there is {name} on it, which this host neither mounts nor overwrites; give the volume another device, or wipe this one (`wipefs --all`, then zeros over its first and last MiB) if its content is not needed"
        )),
        Content::Ambivalent => Err(MountError::unusable(
            device,
            "there are several signatures on it that exclude each other; look with `wipefs`, and remove those that are outdated",
        )),
        _ if is_unfinished => make(),
        Content::Blank => make(),
        Content::Unsigned { at } => refuse(format!(
            "it has no signature, but it is not blank either: byte {at} is not 0; write zeros over its first and last MiB if its content is not needed"
        )),
        Content::Broken(found) => {
            let (found, repair) = (found.name(), found.repair());
            let fault = format!("there is {found} on it whose superblock is not valid; {repair}");
            Err(MountError::damaged(device, fault))
        }
        Content::Filesystem(found) if *found != requested_type && requested.is_named => {
            let (found, requested_type) = (found.name(), requested_type.name());
            refuse(format!(
                "there is {found} on it, and {requested_type} is requested; request {found}, or give the volume another device"
            ))
        }
        Content::Filesystem(found) if !requested.options.contains_key(found) => refuse(format!(
            "there is {found} on it, which rejects the mount options of this volume; name options that it supports",
            found = found.name(),
        )),
        Content::Filesystem(found) => Ok(Verdict::Use(*found)),
    }
}

#[cfg(test)]
mod tests;
