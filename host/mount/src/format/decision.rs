//! The decision whether a device is formatted, used as it is, or refused. Pure, and the only place that says `Make`.
//!
//! It is apart so that the rules by which data can be lost stand in one screen: only what is blank is formatted, or what our own `mkfs`
//! left unfinished; what is foreign, damaged or unclear is for a person to look at. It must not know how anything was found out.

use super::content::Content;
use super::{BlockFilesystem, FsType, StorageAccess, words};
use crate::block::BlockDevice;
use wasmount_core::mounter::MountError;

/// What happens to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A file system is made, over whatever is there.
    Make(FsType),
    /// The one that is there is mounted.
    Use(FsType),
}

/// Why neither happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A person must decide.
    Unusable(String),
    /// A person must repair.
    Damaged(String),
}

impl Refusal {
    /// As an error about a device.
    pub(super) fn error(self, device: &BlockDevice) -> MountError {
        let what = words(device);
        match self {
            Self::Unusable(reason) => MountError::Unusable { what, reason },
            Self::Damaged(reason) => MountError::Damaged { what, reason },
        }
    }
}

/// Decides. `is_unfinished`: our own `mkfs` was begun on it and nobody has mounted the result.
pub(super) fn decide(
    content: &Content,
    is_unfinished: bool,
    wish: &BlockFilesystem,
    access: StorageAccess,
) -> Result<Verdict, Refusal> {
    let wanted = wish.wanted;
    let make = || {
        match access {
        StorageAccess::ReadWrite => Ok(Verdict::Make(wanted)),
        StorageAccess::ReadOnly | StorageAccess::Untouched => Err(Refusal::Unusable(
            "it has no file system yet, and only reading is asked for; stage it once with a writable mode"
                .to_owned(),
        )),
    }
    };
    match content {
        Content::Foreign(name) => Err(Refusal::Unusable(format!(
            "there is {name} on it, which this host neither mounts nor overwrites; give the volume another device, or wipe this one (`wipefs --all`, then zeros over its first and last MiB) if nobody needs it"
        ))),
        Content::Ambivalent => Err(Refusal::Unusable(
            "there are several signatures on it that exclude each other; look with `wipefs`, and take away those that are outdated"
                .to_owned(),
        )),
        _ if is_unfinished => make(),
        Content::Blank => make(),
        Content::Unsigned { at } => Err(Refusal::Unusable(format!(
            "it has no signature, but it is not blank either: byte {at} is not 0; write zeros over its first and last MiB if nobody needs it"
        ))),
        Content::Broken(found) => Err(Refusal::Damaged(format!(
            "there is {found} on it whose superblock is not right; {repair}",
            found = found.name(),
            repair = found.repair(),
        ))),
        Content::Filesystem(found) if *found != wanted && wish.is_named => {
            Err(Refusal::Unusable(format!(
                "there is {found} on it, and {wanted} is asked for; ask for {found}, or give the volume another device",
                found = found.name(),
                wanted = wanted.name(),
            )))
        }
        Content::Filesystem(found) if !wish.options.contains_key(found) => {
            Err(Refusal::Unusable(format!(
                "there is {found} on it, which does not take the mount options of this volume; name those that it takes",
                found = found.name(),
            )))
        }
        Content::Filesystem(found) => Ok(Verdict::Use(*found)),
    }
}

#[cfg(test)]
mod tests;
