//! Pool calls of a backend, with owned and serialisable arguments, and one of the host's own: `Sync`.
//!
//! Paths are relative, `/`-separated and checked by the mounter; this module opens none.

mod unsynced;

use crate::snapshot::Extent;
use serde::{Deserialize, Serialize};

pub use unsynced::Unsynced;

/// One call of the contract's `pool` interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the contract")]
pub enum PoolCall {
    Names,
    Capacity {
        pool: String,
    },
    Stat {
        pool: String,
        path: String,
    },
    List {
        pool: String,
        path: String,
        after: Option<String>,
        limit: u32,
    },
    CreateDirectory {
        pool: String,
        path: String,
    },
    RemoveDirectory {
        pool: String,
        path: String,
    },
    CreateImage {
        pool: String,
        path: String,
        size_bytes: u64,
    },
    ResizeImage {
        pool: String,
        path: String,
        size_bytes: u64,
    },
    CloneImage {
        pool: String,
        source: String,
        target: String,
    },
    CloneDirectory {
        pool: String,
        source: String,
        target: String,
    },
    CloneImages {
        pool: String,
        copies: Vec<(String, String)>,
    },
    AllocatedExtents {
        pool: String,
        path: String,
        offset: u64,
        limit: u32,
    },
    ChangedExtents {
        pool: String,
        base: String,
        target: String,
        offset: u64,
        limit: u32,
    },
    RemoveImage {
        pool: String,
        path: String,
    },
    Rename {
        pool: String,
        source: String,
        target: String,
    },
    SetPermissions {
        pool: String,
        path: String,
        mode: u32,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    SetQuota {
        pool: String,
        path: String,
        bytes: Option<u64>,
    },
    /// Returns when the changes of `CreateDirectory` and `SetPermissions` at these paths are on stable storage, and the promise of each `SetQuota`, so
    /// that several calls about one entry wait for the disk once. No function of the contract: the host calls it.
    Sync {
        pool: String,
        paths: Vec<String>,
    },
}

impl PoolCall {
    /// Whether the call destroys an object that a record, not yet durable, may still reference: the state is synced before such a call.
    pub fn is_destructive(&self) -> bool {
        matches!(
            self,
            PoolCall::RemoveDirectory { .. }
                | PoolCall::RemoveImage { .. }
                | PoolCall::Rename { .. }
        )
    }

    /// Whether the call changes nothing.
    pub fn is_reading(&self) -> bool {
        matches!(
            self,
            PoolCall::Names
                | PoolCall::Capacity { .. }
                | PoolCall::Stat { .. }
                | PoolCall::List { .. }
                | PoolCall::AllocatedExtents { .. }
                | PoolCall::ChangedExtents { .. }
        )
    }

    /// The call's pool and its paths in it.
    pub fn pool_and_paths(&self) -> (Option<&str>, Vec<&str>) {
        match self {
            PoolCall::Names => (None, Vec::new()),
            PoolCall::Capacity { pool } => (Some(pool), Vec::new()),
            PoolCall::Stat { pool, path }
            | PoolCall::List { pool, path, .. }
            | PoolCall::CreateDirectory { pool, path }
            | PoolCall::RemoveDirectory { pool, path }
            | PoolCall::CreateImage { pool, path, .. }
            | PoolCall::ResizeImage { pool, path, .. }
            | PoolCall::AllocatedExtents { pool, path, .. }
            | PoolCall::RemoveImage { pool, path }
            | PoolCall::SetPermissions { pool, path, .. }
            | PoolCall::SetQuota { pool, path, .. } => (Some(pool), vec![path]),
            PoolCall::CloneImage {
                pool,
                source,
                target,
            }
            | PoolCall::CloneDirectory {
                pool,
                source,
                target,
            }
            | PoolCall::Rename {
                pool,
                source,
                target,
            } => (Some(pool), vec![source, target]),
            PoolCall::ChangedExtents {
                pool, base, target, ..
            } => (Some(pool), vec![base, target]),
            PoolCall::Sync { pool, paths } => {
                (Some(pool), paths.iter().map(String::as_str).collect())
            }
            PoolCall::CloneImages { pool, copies } => {
                let paths = copies.iter().flat_map(|(source, target)| [source, target]);
                (Some(pool), paths.map(String::as_str).collect())
            }
        }
    }

    /// All names and paths of the call.
    pub fn strings(&self) -> Vec<&str> {
        let (pool, paths) = self.pool_and_paths();
        let after = match self {
            PoolCall::List { after, .. } => after.as_deref(),
            _ => None,
        };
        pool.into_iter().chain(paths).chain(after).collect()
    }
}

/// The answer to a [`PoolCall`]; each variant names its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolReply {
    /// To every call that changes something, except `SetQuota`.
    Done,
    /// To `Names`.
    Names(Vec<String>),
    /// To `Capacity`.
    Capacity(PoolUsage),
    /// To `Stat`.
    Stat(Option<PoolEntry>),
    /// To `List`.
    List(Vec<PoolEntry>),
    /// To `AllocatedExtents` and `ChangedExtents`.
    Extents(Extents),
    /// To `SetQuota`: whether the file system enforces it.
    Quota {
        /// False: the bytes are promised, and counted in `Capacity`, but the volume can use more.
        enforced: bool,
    },
}

/// Space of a pool, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUsage {
    /// Size of the pool.
    pub total_bytes: u64,
    /// Bytes that can still be promised: the free space, less the promised bytes that are not allocated on disk yet. New promises are checked against
    /// this figure. A tree without a quota counts as not allocated: its data reduces the pool's space twice.
    pub available_bytes: u64,
    /// The promised bytes that are not allocated on disk yet.
    pub promised_bytes: u64,
    /// The bytes of its file system that are not free, whoever wrote or reserves them.
    pub used_bytes: u64,
}

/// Part of the ranges of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents {
    /// In order and without overlap.
    pub ranges: Vec<Extent>,
    /// The position to continue from; absent: the end.
    pub next_offset: Option<u64>,
}

/// An entry of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolEntry {
    /// Relative to the pool.
    pub path: String,
    /// Its kind.
    pub kind: PoolEntryKind,
    /// Logical size of an image, 0 for a directory.
    pub size_bytes: u64,
    /// Its size on disk, as far as known.
    pub allocated_bytes: u64,
}

/// The kind of a pool entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolEntryKind {
    /// A tree.
    Directory,
    /// A block volume.
    Image,
    /// An object that no plugin created; its kind as text.
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_a_call_are_its_names_and_paths() {
        let string = |string: &str| string.to_owned();
        let copies = vec![(string("a"), string("b")), (string("c"), string("d"))];
        for (call, strings) in [
            (PoolCall::Names, &[][..]),
            (
                PoolCall::List {
                    pool: string("pool"),
                    path: string("path"),
                    after: Some(string("after")),
                    limit: 1,
                },
                &["pool", "path", "after"],
            ),
            (
                PoolCall::Rename {
                    pool: string("pool"),
                    source: string("source"),
                    target: string("target"),
                },
                &["pool", "source", "target"],
            ),
            (
                PoolCall::CloneImages {
                    pool: string("pool"),
                    copies,
                },
                &["pool", "a", "b", "c", "d"],
            ),
        ] {
            assert_eq!(call.strings(), strings);
        }
    }
}
