//! Makes what a volume is into a detached mount: complete, with all its flags, and visible to nobody until it is attached. One file a kind
//! of source.
//!
//! It is apart so that a new kind of source touches no call: calls get a [`Prepared`] and attach it. A source must not know where it will be
//! attached.

mod directory;
mod tmpfs;

use crate::failure::kernel;
use crate::observe::{Identity, observe};
use crate::plan::CheckedSource;
use crate::plan::options::MountFlags;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// A mount that is attached nowhere. Dropped before it is attached, it is gone: a killed host leaves nothing of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) mount: OwnedFd,
    /// Of the mount's root: by this it is found again.
    pub(crate) identity: Identity,
}

impl Prepared {
    fn of(mount: OwnedFd, what: &str) -> Result<Self, MountError> {
        let observation = observe(&mount).map_err(|errno| kernel("statx", what, errno))?;
        Ok(Self {
            mount,
            identity: observation.identity,
        })
    }
}

/// Makes the mount.
pub(crate) fn prepare(source: &CheckedSource, flags: MountFlags) -> Result<Prepared, MountError> {
    match source {
        CheckedSource::Directory(tree) => directory::prepare(tree, flags),
        CheckedSource::Tmpfs(tmpfs) => tmpfs::prepare(tmpfs, flags),
    }
}

/// What the mount's root would be, where that can be told beforehand: an existing mount with it shows this source.
pub(crate) fn identity(source: &CheckedSource) -> Result<Option<Identity>, MountError> {
    match source {
        CheckedSource::Directory(tree) => directory::identity(tree).map(Some),
        // Each one is new.
        CheckedSource::Tmpfs(_) => Ok(None),
    }
}
