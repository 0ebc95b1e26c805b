//! An empty file system in memory as a mount.
//!
//! It must not know grants: size and options were checked.

use crate::failure::kernel;
use crate::fs_context::FsContext;
use crate::plan::options::MountFlags;
use crate::plan::tmpfs::CheckedTmpfs;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// The type, and what the mount table shows as its source.
const NAME: &str = "tmpfs";
/// What messages call it.
const STEP: &str = "step `tmpfs`";

/// Makes the file system and the mount.
pub(crate) fn prepare(tmpfs: &CheckedTmpfs, flags: MountFlags) -> Result<OwnedFd, MountError> {
    let context = FsContext::open(NAME, STEP)?;
    context.set("source", NAME)?;
    if let Some(size_bytes) = tmpfs.size_bytes {
        context.set("size", &size_bytes.to_string())?;
    }
    for (name, value) in &tmpfs.options {
        context.set(name, value)?;
    }
    context
        .create(false)
        .map_err(|errno| kernel("fsconfig create", STEP, errno))?;
    context.mount(flags)
}
