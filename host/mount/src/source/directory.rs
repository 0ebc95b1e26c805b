//! A tree of a pool as a mount: a clone of just this directory, not of what is mounted below.
//!
//! The tree is opened by `confine`, without following links and without crossing a mount: a plugin names paths in its pool, and nothing that
//! happens in the pool may lead elsewhere. It must not know where the mount goes.

use super::Prepared;
use crate::confine::open_confined;
use crate::executor::{clone_mount, dress};
use crate::failure::kernel;
use crate::observe::{Identity, observe};
use crate::plan::PoolTree;
use crate::plan::options::MountFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Makes the mount.
pub(crate) fn prepare(tree: &PoolTree, flags: MountFlags) -> Result<Prepared, MountError> {
    let opened = open(tree)?;
    let mount = clone_mount(&opened, &words(tree))?;
    dress(&mount, flags, &words(tree))?;
    Prepared::of(mount, &words(tree))
}

/// Which directory it is.
pub(crate) fn identity(tree: &PoolTree) -> Result<Identity, MountError> {
    let opened = open(tree)?;
    observe(&opened)
        .map(|observation| observation.identity)
        .map_err(|errno| kernel("statx", words(tree), errno))
}

fn open(tree: &PoolTree) -> Result<OwnedFd, MountError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let pool = rustix::fs::open(&tree.directory, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| kernel("open", format!("pool `{}`", tree.pool), errno))?;
    match open_confined(&pool, tree.path.as_str(), flags) {
        Ok(opened) => Ok(opened),
        Err(Errno::NOENT) => Err(MountError::NotFound { what: words(tree) }),
        Err(Errno::NOTDIR) => Err(refuse(tree, "it is not a directory")),
        Err(Errno::LOOP) => Err(refuse(tree, "it leads through a symbolic link")),
        Err(Errno::XDEV) => Err(refuse(tree, "it leads into another mount")),
        Err(errno) => Err(kernel("open", words(tree), errno)),
    }
}

fn refuse(tree: &PoolTree, reason: &str) -> MountError {
    MountError::Invalid {
        what: words(tree),
        reason: reason.to_owned(),
    }
}

fn words(tree: &PoolTree) -> String {
    format!("tree `{}` of pool `{}`", tree.path, tree.pool)
}
