//! The system calls that make a mount visible, all by descriptor: clone, set flags, attach, verify, undo.
//!
//! Flags are set on a detached mount, so the mount is never visible in a state in which it is writable or honours set-user bits.

use crate::block::{BlockDevice, BlockRecord};
use crate::failure::kernel;
use crate::mountinfo;
use crate::observe::{Identity, Seen, identity, inspect, mount_id};
use crate::plan::filesystem::CheckedFilesystem;
use crate::plan::options::MountFlags;
use crate::roots::CheckedPath;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use std::fmt::Display;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
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

/// Attaches a detached mount to an opened directory and verifies that the client's path leads to it. If not, the mount is removed again.
#[tracing::instrument(level = "debug", skip_all, name = "attach mount")]
pub(crate) fn attach(
    prepared: &PreparedMount,
    onto: impl AsFd,
    path: &CheckedPath,
    flags: MountFlags,
) -> Result<(), MountError> {
    move_onto(&prepared.mount, onto, path.text())?;
    let has_granted_source = || match &prepared.filesystem {
        Some(filesystem) => verify_source(&prepared.mount, filesystem),
        None => Ok(()),
    };
    verify(path, prepared.identity, flags)
        .and_then(|()| has_granted_source())
        .inspect_err(|_| roll_back(prepared, path))
}

/// Attaches a detached mount to an opened directory or file; `what` is for messages.
pub(crate) fn move_onto(
    mount: impl AsFd,
    onto: impl AsFd,
    what: impl Display,
) -> Result<(), MountError> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", onto, c"", both).map_err(|errno| kernel("move_mount", what, errno))
}

/// The mount table shows a mount, and which part of its server it shows, only after it is attached.
pub(crate) fn verify_source(
    mount: impl AsFd,
    filesystem: &CheckedFilesystem,
) -> Result<(), MountError> {
    let failed = |errno| kernel("look at", "a new mount", errno);
    let id = mount_id(mount).map_err(failed)?;
    // Without a line in the table, an administrator unmounted it.
    let line = mountinfo::of_mount(id)?.ok_or_else(|| failed(Errno::STALE))?;
    filesystem.refuse_shown(&line.source)
}

/// Unmounts an attached mount by its descriptor, even if its mount point was moved.
fn roll_back(prepared: &PreparedMount, path: &CheckedPath) {
    let mount = format!("/proc/self/fd/{}", prepared.mount.as_raw_fd());
    // The unmount is lazy, because the descriptor itself keeps the mount busy. It has no other user: it existed for microseconds.
    match unmount(mount, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => {
            tracing::error!(path = path.text(), %errno, "a mount could not be rolled back; unpublishing or unstaging its path removes it");
        }
    }
}

/// Resolves the client's path again: it must lead to the attached mount, and the mount must have the intended flags.
fn verify(path: &CheckedPath, identity: Identity, flags: MountFlags) -> Result<(), MountError> {
    let seen = match path.locate()? {
        Some(location) => inspect(&location)?,
        None => Seen::Nothing,
    };
    let failed =
        |errno: Errno, text| MountError::kernel("verify", path.text(), errno.raw_os_error(), text);
    let text = match seen {
        Seen::Mounted(mount) if mount.identity == identity => {
            if flags.agree_with(mount.flags()?) {
                return Ok(());
            }
            if mount.is_read_only()? && !flags.is_read_only() {
                let text = "the storage is read-only, and a writable mount was requested";
                return Err(failed(Errno::ROFS, text.to_owned()));
            }
            "its flags are not what was set"
        }
        Seen::Mounted(_) => "it leads to another mount",
        Seen::Nothing | Seen::Plain(..) | Seen::Corrupted(_) => "it does not lead to the mount",
    };
    let text = format!("{text}; it was changed during the call, which was undone");
    Err(failed(Errno::STALE, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs_context::FsContext;
    use crate::namespace::in_a_namespace;
    use crate::roots::{PathRoot, Roots};
    use rustix::mount::MountAttrFlags;

    /// A tmpfs replaces the share; its name replaces the target of the server's link.
    fn attached(shown: &str) -> (Result<(), MountError>, usize) {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let context = FsContext::open("tmpfs", "a share").unwrap();
        context.set("source", shown).unwrap();
        context.create(false).unwrap();
        let flags = MountFlags {
            set: MountAttrFlags::MOUNT_ATTR_NOSUID,
            clear: MountAttrFlags::empty(),
        };
        let prepared = PreparedMount {
            filesystem: Some(Box::new(CheckedFilesystem {
                fs_type: "nfs4".to_owned(),
                source: "server:/exports/link".to_owned(),
                options: Vec::new(),
                secret_names: Vec::new(),
                server: None,
                granted_sources: vec!["server:/exports/*".to_owned()],
            })),
            ..PreparedMount::of(context.mount(flags).unwrap()).unwrap()
        };
        let roots = Roots::new(vec![PathRoot::Any(directory.path().to_owned())]);
        let path = roots.check_text(target.to_str().unwrap()).unwrap();
        let onto = std::fs::File::open(&target).unwrap();
        let attached = attach(&prepared, &onto, &path, flags);
        let table = mountinfo::read().unwrap();
        let mounts = table.iter().filter(|line| line.mount_point == target);
        (attached, mounts.count())
    }

    #[test]
    fn privileged_a_mount_that_shows_what_was_not_granted_is_undone() {
        in_a_namespace(|| {
            let (refused, mounts) = attached("server:/secret");
            assert!(matches!(refused, Err(MountError::NotGranted { .. })));
            assert_eq!(mounts, 0);
            assert_eq!(attached("server:/exports/v2"), (Ok(()), 1));
        });
    }
}
