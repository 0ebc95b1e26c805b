//! Storage pools: directory trees and images in a directory that the administrator granted.
//!
//! Everything is idempotent: creating what exists in the same form and removing what is absent succeed. A pool that was not granted returns
//! `permission-denied`.

mod content;
mod snapshots;

use crate::error::Error;
use crate::imports;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

pub use content::{Content, health};
pub use snapshots::Snapshots;

pub use crate::bindings::imports::wasmount::csi::pool::{Entry, Extents, Kind, Usage};

/// Mode of a directory that every user may write to.
const EVERY_USER: u32 = 0o777;

/// A pool, by the name under which the administrator granted it. A record stores this name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pool(Cow<'static, str>);

impl Pool {
    /// The pool of this name; whether it was granted is checked when it is used.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// All granted pools, ordered by name.
    pub fn granted() -> Vec<Pool> {
        imports::pool::names().into_iter().map(Pool::from).collect()
    }

    /// Rejects a pool that was not granted, with `invalid-argument`: for a pool that a request names.
    pub fn must_be_granted(&self) -> Result<(), Error> {
        if Self::granted().contains(self) {
            return Ok(());
        }
        let Self(name) = self;
        Err(Error::invalid_argument(format!(
            "there is no pool `{name}`: ask for one that is granted"
        )))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Its size, and how many bytes can still be promised.
    pub fn capacity(&self) -> Result<Usage, Error> {
        imports::pool::capacity(&self.0)
    }

    /// The entry at a path.
    pub fn stat(&self, path: &str) -> Result<Option<Entry>, Error> {
        imports::pool::stat(&self.0, path)
    }

    /// The entries directly below a path ("" is the pool), ordered by name, after `after`; at most `limit`, the host may return fewer. An empty list
    /// is the end.
    pub fn list(&self, path: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
        imports::pool::list(&self.0, path, after, limit)
    }

    /// Creates a directory. It has no size of its own: see [`Pool::set_quota`].
    pub fn create_directory(&self, path: &str) -> Result<(), Error> {
        imports::pool::create_directory(&self.0, path)
    }

    /// Creates a directory that every user can write to, as pods run as any user, and promises `bytes` to it, or does neither: a directory that
    /// existed before stays. `resource-exhausted` when fewer bytes are left.
    pub fn create_directory_of(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let is_new = self.stat(path)?.is_none();
        self.create_directory(path)?;
        // Before the promise, which waits until the directory is on stable storage.
        let promised = self
            .set_permissions(path, EVERY_USER, None, None)
            .and_then(|()| self.set_quota(path, Some(bytes)));
        if promised.is_err() && is_new {
            self.remove_directory(path)?;
        }
        promised.map(drop)
    }

    /// Removes a directory with its contents and its quota.
    pub fn remove_directory(&self, path: &str) -> Result<(), Error> {
        imports::pool::remove_directory(&self.0, path)
    }

    /// Creates a sparse image; `already-exists` when it exists with another size.
    pub fn create_image(&self, path: &str, size_bytes: u64) -> Result<(), Error> {
        imports::pool::create_image(&self.0, path, size_bytes)
    }

    /// Enlarges an image.
    pub fn resize_image(&self, path: &str, size_bytes: u64) -> Result<(), Error> {
        imports::pool::resize_image(&self.0, path, size_bytes)
    }

    /// Copies an image as it is now. The copy shares blocks where the file system can; `unimplemented` where it cannot and the grant does not allow
    /// full copies.
    pub fn clone_image(&self, source: &str, target: &str) -> Result<(), Error> {
        imports::pool::clone_image(&self.0, source, target)
    }

    /// The same for a directory tree.
    pub fn clone_directory(&self, source: &str, target: &str) -> Result<(), Error> {
        imports::pool::clone_directory(&self.0, source, target)
    }

    /// Copies several images, sources and their targets, at the same moment: all or none. `unimplemented` where blocks cannot be shared.
    pub fn clone_images(&self, copies: &[(String, String)]) -> Result<(), Error> {
        imports::pool::clone_images(&self.0, copies)
    }

    /// Ranges of an image that hold data, starting at `offset`, at most `limit` (0: the host decides); the rest reads as zeroes.
    pub fn allocated_extents(&self, path: &str, offset: u64, limit: u32) -> Result<Extents, Error> {
        imports::pool::allocated_extents(&self.0, path, offset, limit)
    }

    /// Ranges of the image `target` that differ from the image `base`, starting at `offset`, at most `limit` (0: the host decides).
    pub fn changed_extents(
        &self,
        base: &str,
        target: &str,
        offset: u64,
        limit: u32,
    ) -> Result<Extents, Error> {
        imports::pool::changed_extents(&self.0, base, target, offset, limit)
    }

    /// Removes an image.
    pub fn remove_image(&self, path: &str) -> Result<(), Error> {
        imports::pool::remove_image(&self.0, path)
    }

    /// Renames an entry within the pool; `already-exists` when the target exists.
    pub fn rename(&self, source: &str, target: &str) -> Result<(), Error> {
        imports::pool::rename(&self.0, source, target)
    }

    /// Permission bits and owner of the top directory of a tree.
    pub fn set_permissions(
        &self,
        path: &str,
        mode: u32,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Error> {
        imports::pool::set_permissions(&self.0, path, mode, uid, gid)
    }

    /// Promises `bytes` to a directory; `resource-exhausted` when fewer are left. Returns whether the file system also enforces the quota. `None`
    /// ends the promise.
    pub fn set_quota(&self, path: &str, bytes: Option<u64>) -> Result<bool, Error> {
        imports::pool::set_quota(&self.0, path, bytes)
    }
}

impl From<String> for Pool {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}
