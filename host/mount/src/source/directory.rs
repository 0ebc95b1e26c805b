//! A tree of a pool as a mount: a clone of just this directory, not of what is mounted below.
//!
//! The tree is opened by `confine`, without following links and without crossing a mount: a plugin names paths in its pool, and nothing that
//! happens in the pool may lead elsewhere. It must not know where the mount goes.

use crate::confine::open_confined;
use crate::observe::{self, Identity};
use crate::plan::PoolPlace;
use crate::plan::options::MountFlags;
use crate::pool::refuse_leaving;
use crate::prepared_mount::{clone_mount, dress};
use crate::source::open_pool;
use rustix::fs::OFlags;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Makes the mount.
pub(crate) fn prepare(tree: &PoolPlace, flags: MountFlags) -> Result<OwnedFd, MountError> {
    let pool = open_pool(tree)?;
    refuse_leaving(&pool, tree)?;
    let mount = clone_mount(open(&pool, tree)?, &tree.to_string())?;
    dress(&mount, flags, &tree.to_string())?;
    Ok(mount)
}

/// Which directory it is.
pub(crate) fn identity(tree: &PoolPlace) -> Result<Identity, MountError> {
    observe::identity(open(&open_pool(tree)?, tree)?, tree)
}

fn open(pool: &OwnedFd, tree: &PoolPlace) -> Result<OwnedFd, MountError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    open_confined(pool, tree.path.as_str(), flags).map_err(|errno| tree.failed("open", errno))
}
