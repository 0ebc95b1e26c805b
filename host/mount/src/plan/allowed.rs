//! Which mount options a tree, files and the file system of a device take, by type and grant.
//!
//! It must not know any option of a request.

use super::options::{Allowed, Labels};
use super::own_options;
use crate::fs_type::FsType;
use wasmount_core::document::{Grants, PoolGrant};

/// No options but the flags of the mount.
const FLAGS_ONLY: Allowed<'static> = Allowed {
    granted: &[],
    is_harmless: |_, _| false,
    reserved: &[],
    takes_own: false,
    labels: Labels::CannotBe,
};

/// A tree lies on the pool's file system, whose options are not its own.
pub(super) fn directory_options(grant: &PoolGrant) -> Allowed<'_> {
    Allowed {
        granted: &grant.mount_options,
        ..FLAGS_ONLY
    }
}

/// Files of a plan lie on a file system of their own, of which only the label can be chosen.
pub(super) fn files_options(grants: &Grants) -> Allowed<'static> {
    Allowed {
        labels: Labels::of(grants),
        ..FLAGS_ONLY
    }
}

/// What lies on a device takes what its type takes.
pub(super) fn block_options<'g>(
    fs_type: FsType,
    granted: &'g [String],
    grants: &Grants,
) -> Allowed<'g> {
    Allowed {
        granted,
        is_harmless: match fs_type {
            FsType::Ext4 => |name, value| own_options::is_harmless("ext4", name, value),
            FsType::Xfs => |name, value| own_options::is_harmless("xfs", name, value),
            FsType::Btrfs => |name, value| own_options::is_harmless("btrfs", name, value),
        },
        reserved: own_options::reserved(fs_type.name()),
        takes_own: true,
        labels: Labels::of(grants),
    }
}
