//! The file systems that this host makes and mounts on block devices, and what a volume may do with them.

use crate::failure::kernel;
use rustix::fs::fstatfs;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use wasmount_core::mounter::MountError;

/// A file system type that this host makes and mounts on a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FsType {
    Ext4,
    Xfs,
    Btrfs,
}

/// The file system that a volume must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockFilesystem {
    pub(crate) fs_type: FsType,
    /// The request names the type. Otherwise it is a default, and an existing file system of another supported type is accepted.
    pub(crate) is_named: bool,
    /// Options of the file system itself, as names and values, for each type that accepts those of plan and request. `fs_type` is one of these types.
    pub(crate) options: BTreeMap<FsType, Vec<(String, String)>>,
}

/// What the host may do with the storage of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StorageAccess {
    /// Format, check, expand and write.
    ReadWrite,
    /// Users only read, and no other node uses the storage: the kernel may replay the journal of the file system.
    ReadOnly,
    /// Other nodes may use the storage too: not one byte is written.
    Untouched,
}

impl FsType {
    pub(crate) const ALL: [FsType; 3] = [FsType::Ext4, FsType::Xfs, FsType::Btrfs];

    /// The name that the kernel, `blkid` and CSI's `fs_type` use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FsType::Ext4 => "ext4",
            FsType::Xfs => "xfs",
            FsType::Btrfs => "btrfs",
        }
    }

    /// The type with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The type of the file system at a descriptor. `None`: another type.
    pub(crate) fn of_mounted(root: impl AsFd) -> Result<Option<Self>, MountError> {
        let found = fstatfs(root).map_err(|errno| kernel("statfs", "the volume's mount", errno))?;
        // Magic numbers of `statfs(2)`.
        Ok(match u64::try_from(found.f_type) {
            // ext2 and ext3 have it as well, which this host does not mount.
            Ok(0xef53) => Some(FsType::Ext4),
            Ok(0x5846_5342) => Some(FsType::Xfs),
            Ok(0x9123_683e) => Some(FsType::Btrfs),
            _ => None,
        })
    }

    /// Advice for the administrator about a damaged file system.
    pub(crate) fn repair(self) -> &'static str {
        match self {
            FsType::Ext4 => {
                "save what counts, then run `e2fsck` on it by hand while it is not staged"
            }
            FsType::Xfs => {
                "save what counts, then run `xfs_repair` on it by hand while it is not staged"
            }
            FsType::Btrfs => {
                "look with `btrfs check`, and save what counts with `btrfs restore`, while it is not staged"
            }
        }
    }
}
