//! A place in a pool, and the meaning of error numbers there.
//!
//! This module opens nothing.

use crate::confine::PoolPath;
use crate::failure::{kernel, shown};
use rustix::io::Errno;
use std::fmt;
use std::path::Path;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// A checked path with the name of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pool: String,
    pub(super) path: PoolPath,
}

impl Place {
    /// Checks the syntax of a plugin's path.
    pub(super) fn parse(pool: &str, path: &str) -> Result<Self, MountError> {
        let parsed = PoolPath::parse(path).map_err(|fault| {
            let what = format!("path `{}` of pool `{}`", shown(path), shown(pool));
            MountError::invalid(what, fault.to_string(), Blame::argument(path))
        })?;
        Ok(Self {
            pool: pool.to_owned(),
            path: parsed,
        })
    }

    /// Whether both paths are equal or one lies in the other.
    pub(super) fn overlaps(&self, other: &str) -> bool {
        self.path.is_in(other) || Path::new(other).starts_with(self.path.as_str())
    }

    /// The error of a system call on the place.
    pub(super) fn failed(&self, operation: &str, errno: Errno) -> MountError {
        match errno {
            Errno::NOENT => MountError::not_found(self.to_string()),
            Errno::LOOP => self.unfit("it is a symbolic link, or leads through one"),
            Errno::XDEV => self.unfit("it leads onto another mount"),
            Errno::NOTDIR => self.unfit("it, or a part of it, is not a directory"),
            Errno::ISDIR => self.unfit("it is a directory"),
            Errno::NAMETOOLONG => self.invalid("it is too long for the file system"),
            Errno::FBIG => self.too_much("it would be larger than the file system allows"),
            Errno::BUSY => self.in_use("it is a mount point"),
            errno => kernel(operation, self, errno),
        }
    }

    /// The error that the path is not acceptable.
    pub(super) fn invalid(&self, reason: &str) -> MountError {
        MountError::invalid(
            self.to_string(),
            reason,
            Blame::argument(self.path.as_str()),
        )
    }

    /// The error that the call does not apply to what exists there.
    pub(super) fn unfit(&self, reason: &str) -> MountError {
        MountError::invalid(self.to_string(), reason, Blame::Of(Owner::Content))
    }

    /// The error that a number exceeds a bound; it may be computed from the request.
    pub(super) fn too_much(&self, reason: &str) -> MountError {
        MountError::invalid(self.to_string(), reason, Blame::Of(Owner::Request))
    }

    /// The error that something else exists there.
    pub(super) fn otherwise_there(&self, difference: impl fmt::Display) -> MountError {
        MountError::already_exists(self.to_string(), difference)
    }

    /// The error that it is in use.
    pub(super) fn in_use(&self, by: impl fmt::Display) -> MountError {
        MountError::in_use(self.to_string(), by)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of pool `{}`", self.path, shown(&self.pool))
    }
}
