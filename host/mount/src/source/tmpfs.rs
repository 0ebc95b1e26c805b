//! An empty file system in memory as a mount, through `fsopen`, so that each option is a word of its own and none can hide in another.
//!
//! It must not know grants: size and options were checked.

use super::Prepared;
use crate::failure::{exhausted, kernel};
use crate::plan::CheckedTmpfs;
use crate::plan::options::MountFlags;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen,
};
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// What messages call it, and what the mount table shows as its source.
const NAME: &str = "tmpfs";

/// Makes the file system and the mount.
pub(crate) fn prepare(tmpfs: &CheckedTmpfs, flags: MountFlags) -> Result<Prepared, MountError> {
    let context =
        fsopen(NAME, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| kernel("fsopen", NAME, errno))?;
    set(&context, "source", NAME)?;
    if let Some(size_bytes) = tmpfs.size_bytes {
        set(&context, "size", &size_bytes.to_string())?;
    }
    for (name, value) in &tmpfs.options {
        set(&context, name, value)?;
    }
    fsconfig_create(&context).map_err(|errno| kernel("fsconfig create", NAME, errno))?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags.set)
        .map_err(|errno| kernel("fsmount", NAME, errno))?;
    Prepared::of(mount, NAME)
}

fn set(context: &OwnedFd, name: &str, value: &str) -> Result<(), MountError> {
    let done = if value.is_empty() {
        fsconfig_set_flag(context, name)
    } else {
        fsconfig_set_string(context, name, value)
    };
    done.map_err(|errno| match exhausted(errno) {
        Some(_) => kernel("fsconfig", NAME, errno),
        None => MountError::Invalid {
            what: format!("option `{name}` of step `tmpfs`"),
            reason: "the kernel does not take it".to_owned(),
        },
    })
}
