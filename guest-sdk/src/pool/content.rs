//! Content of a pool, tree or image: most backends treat both in the same way, except for creation.
//!
//! It stores nothing: the backend keeps a volume's name and size.

use super::{Kind, Pool};
use crate::controller::{Health, HealthStatus};
use crate::error::{Code, Error};
use crate::state;
use serde::{Deserialize, Serialize};

/// Content in a pool: of a volume, or of a snapshot that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the pool")]
pub struct Content {
    pub pool: Pool,
    pub path: String,
    pub size_bytes: u64,
}

impl Content {
    /// Content of this size.
    pub fn new(pool: Pool, path: impl Into<String>, size_bytes: u64) -> Self {
        Self {
            pool,
            path: path.into(),
            size_bytes,
        }
    }

    /// Whether it is a directory, not an image; `not-found` when it does not exist.
    pub fn is_directory(&self) -> Result<bool, Error> {
        let entry = self.pool.stat(&self.path)?;
        let entry = entry.ok_or_else(|| Error::not_found("the pool does not hold the content"))?;
        Ok(entry.kind == Kind::Directory)
    }
}

impl Pool {
    /// [`Pool::clone_directory`] or [`Pool::clone_image`], depending on the source.
    pub fn copy(&self, source: &str, target: &str) -> Result<(), Error> {
        match self.kind(source)? {
            Some(Kind::Directory) => self.clone_directory(source, target),
            _ => self.clone_image(source, target),
        }
    }

    /// Sets a directory's quota to `bytes`, or enlarges an image to them. A larger image keeps its size: an earlier call for more may have ended
    /// before it was recorded, and images never shrink.
    pub fn resize(&self, path: &str, bytes: u64) -> Result<(), Error> {
        match self.stat(path)? {
            Some(there) if there.kind == Kind::Directory => {
                self.set_quota(path, Some(bytes)).map(drop)
            }
            there => {
                let there = there.map_or(0, |there| there.size_bytes);
                self.resize_image(path, bytes.max(there))
            }
        }
    }

    /// [`Pool::remove_directory`] or [`Pool::remove_image`], depending on the kind. Absent content is removed once more: its absence is then on
    /// stable storage.
    pub fn remove(&self, path: &str) -> Result<(), Error> {
        match self.kind(path)? {
            Some(Kind::Directory) => self.remove_directory(path),
            _ => self.remove_image(path),
        }
    }

    /// Whether the copy of `source` at `target` is complete. Begins the copy, or begins it again where it was lost; it continues if this returns
    /// false.
    pub fn has_copied(&self, source: &str, target: &str) -> Result<bool, Error> {
        if self.stat(target)?.is_some() {
            return Ok(true);
        }
        match self.copy(source, target) {
            Err(error) if error.code == Code::Aborted => Ok(false),
            copied => copied.map(|()| true),
        }
    }

    /// Creates the content of a new volume, empty or as a copy of other content, which is then enlarged: a tree with a quota that every user may
    /// write to, since pods run as any user, or an image. `invalid-argument` for content of another kind or in another pool.
    pub fn create_volume(
        &self,
        kind: Kind,
        path: &str,
        bytes: u64,
        from: Option<&Content>,
    ) -> Result<(), Error> {
        let is_directory = kind == Kind::Directory;
        match from {
            Some(from) if from.pool != *self || from.is_directory()? != is_directory => {
                Err(Error::invalid_argument(
                    "the source is of another kind or in another pool: use a StorageClass like its own",
                ))
            }
            Some(from) => {
                self.copy(&from.path, path)?;
                self.resize(path, bytes)
            }
            None if is_directory => self.create_directory_of(path, bytes),
            None => self.create_image(path, bytes),
        }
    }

    /// Returns the result `made` of creating content at `path`, and removes the content after a final failure: after an uncertain one it stays, for
    /// the retry to find.
    pub fn keep<R>(&self, path: &str, made: Result<R, Error>) -> Result<R, Error> {
        if made.as_ref().is_err_and(|error| !error.is_uncertain()) {
            self.remove(path)?;
        }
        made
    }

    fn kind(&self, path: &str) -> Result<Option<Kind>, Error> {
        Ok(self.stat(path)?.map(|entry| entry.kind))
    }
}

/// The health conditions of the content at `path`. `known`: its pool, and the smallest size of an image, from the backend's record. In a node call,
/// where reading a record returns `failed-precondition`, all pools are searched.
pub fn health(path: &str, known: Result<(Pool, Option<u64>), Error>) -> Result<Vec<Health>, Error> {
    let (pools, image_bytes) = match known {
        Ok((pool, bytes)) => (vec![pool], bytes),
        // The record of a newer version returns the same code where records are available.
        Err(error) if error.code == Code::FailedPrecondition && !state::is_available()? => {
            (Pool::granted(), None)
        }
        Err(error) => return Err(error),
    };
    for pool in pools {
        if let Some(found) = pool.stat(path)? {
            let is_small = image_bytes.is_some_and(|bytes| found.size_bytes < bytes);
            let small = || data_loss("ContentTooSmall", "the image is smaller than the volume");
            return Ok(is_small.then(small).into_iter().collect());
        }
    }
    Ok(vec![data_loss(
        "ContentMissing",
        "the pool does not hold the volume: restore it from a snapshot or a backup, or delete it",
    )])
}

fn data_loss(reason: &str, message: &str) -> Health {
    Health::new(HealthStatus::DataLoss, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn reasons(path: &str, known: Result<(Pool, Option<u64>), Error>) -> Vec<String> {
        let found = health(path, known).unwrap();
        found.into_iter().map(|health| health.reason).collect()
    }

    #[test]
    fn content_is_there_or_missing_or_too_small() {
        testing::reset();
        testing::add_pool("others", 1000);
        testing::add_pool("volumes", 1000);
        let pool = Pool::named("volumes");
        pool.create_image("disk", 100).unwrap();
        let known = |bytes| Ok((pool.clone(), bytes));
        assert_eq!(reasons("disk", known(Some(100))), [""; 0]);
        assert_eq!(reasons("disk", known(None)), [""; 0]);
        assert_eq!(reasons("disk", known(Some(101))), ["ContentTooSmall"]);
        assert_eq!(reasons("none", known(None)), ["ContentMissing"]);
    }

    #[test]
    fn without_records_all_pools_are_searched() {
        testing::reset();
        testing::add_pool("others", 1000);
        testing::add_pool("volumes", 1000);
        Pool::named("volumes").create_image("disk", 100).unwrap();
        let no_records = || Err(Error::failed_precondition("no records"));
        let mut found = Vec::new();
        let plan = testing::record(|_| {
            found.push(reasons("disk", no_records()));
            found.push(reasons("none", no_records()));
            Ok(())
        });
        assert!(plan.is_err(), "nothing was recorded");
        assert_eq!(found, [vec![], vec!["ContentMissing".to_owned()]]);
        // On the controller the same code means that the record cannot be read.
        for error in [
            Error::not_found("no such volume"),
            Error::failed_precondition("the record has schema 2"),
        ] {
            assert_eq!(health("disk", Err(error.clone())), Err(error));
        }
    }
}
