//! Detached mounts: cloned, with their flags set, and identified by their root.

use crate::block::{BlockDevice, BlockRecord};
use crate::failure::kernel;
use crate::observe::{Identity, identity};
use crate::plan::filesystem::CheckedFilesystem;
use crate::plan::options::MountFlags;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::os::fd::{AsFd, OwnedFd};
use wasmount_core::mounter::MountError;
use wasmount_sys::mount_setattr::mount_setattr;

/// A detached mount.
#[derive(Debug)]
pub(crate) struct PreparedMount {
    pub(crate) mount: OwnedFd,
    /// Identity of the mount's root, by which it is found again.
    pub(crate) identity: Identity,
    /// The block device below, for the record.
    pub(crate) block: Option<BlockRecord>,
    /// The same device, held open until the mount is attached.
    pub(crate) device: Option<BlockDevice>,
    /// Set for a file system that is mounted by type: its source can be verified only after it is attached.
    pub(crate) filesystem: Option<Box<CheckedFilesystem>>,
}

impl PreparedMount {
    /// A detached mount.
    pub(crate) fn of(mount: OwnedFd) -> Result<Self, MountError> {
        Ok(Self {
            identity: identity(&mount, "a new mount")?,
            mount,
            block: None,
            device: None,
            filesystem: None,
        })
    }

    /// A raw block device as a mount that shows just its node.
    pub(crate) fn of_device(device: &BlockDevice, flags: MountFlags) -> Result<Self, MountError> {
        let what = device.path.display().to_string();
        let mount = clone_mount(&device.file, &what)?;
        dress(&mount, flags, &what)?;
        Self::of(mount)
    }
}

/// A detached clone of the mount that contains a descriptor, with the descriptor's directory as its root and without submounts.
pub(crate) fn clone_mount(root: impl AsFd, what: &str) -> Result<OwnedFd, MountError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(root, c"", flags).map_err(|errno| kernel("open_tree", what, errno))
}

/// Sets the flags of a detached mount and makes it private: later mounts inside its origin must not appear in it. When it is attached below a shared
/// mount, the kernel makes it shared again, in a new peer group.
pub(crate) fn dress(mount: impl AsFd, flags: MountFlags, what: &str) -> Result<(), MountError> {
    mount_setattr(mount, flags.set, flags.clear)
        .map_err(|errno| kernel("mount_setattr", what, errno))
}
