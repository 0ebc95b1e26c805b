//! What a backend may ask of a pool, as owned and serialisable arguments.
//!
//! Paths are relative, `/`-separated and checked by the mounter; nothing here opens one.

use crate::snapshot::Extent;
use serde::{Deserialize, Serialize};

/// One call of the contract's `pool` interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "each variant and field is the function and parameter of the contract with that name"
)]
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
}

impl PoolCall {
    /// Whether it destroys something that a not yet durable record may still speak of: the state is synced before such a call.
    pub fn is_destructive(&self) -> bool {
        matches!(
            self,
            PoolCall::RemoveDirectory { .. }
                | PoolCall::RemoveImage { .. }
                | PoolCall::Rename { .. }
        )
    }

    /// Whether it leaves everything as it is.
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

    /// The pool that it names, and the paths in it.
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
            PoolCall::CloneImages { pool, copies } => {
                let paths = copies.iter().flat_map(|(source, target)| [source, target]);
                (Some(pool), paths.map(String::as_str).collect())
            }
        }
    }

    /// All names and paths in it.
    pub fn words(&self) -> Vec<&str> {
        let (pool, paths) = self.pool_and_paths();
        let after = match self {
            PoolCall::List { after, .. } => after.as_deref(),
            _ => None,
        };
        pool.into_iter().chain(paths).chain(after).collect()
    }
}

/// The answer to a [`PoolCall`]; which one belongs to which call stands at the variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolReply {
    /// To every call that changes something, but `SetQuota`.
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
        /// False: the bytes are promised, and counted in `Capacity`, but nothing stops a volume from using more.
        enforced: bool,
    },
}

/// Space of a pool, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUsage {
    /// Size of the pool.
    pub total_bytes: u64,
    /// What can still be promised: what is free, less what was promised and has not been taken from the disk yet. The very figure that a
    /// new promise is held to. A tree that no quota counts has taken nothing in this sense: what it wrote stands against the pool twice.
    pub available_bytes: u64,
}

/// Part of the ranges of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents {
    /// In order and without overlap.
    pub ranges: Vec<Extent>,
    /// Where to ask on; absent: the end.
    pub next_offset: Option<u64>,
}

/// What a pool holds at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolEntry {
    /// Relative to the pool.
    pub path: String,
    /// What it is.
    pub kind: PoolEntryKind,
    /// Logical size of an image, 0 for a directory.
    pub size_bytes: u64,
    /// What it takes on disk, as far as known.
    pub allocated_bytes: u64,
}

/// What a pool entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolEntryKind {
    /// A tree.
    Directory,
    /// A block volume.
    Image,
    /// Something that no plugin made; its kind in words.
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_call_are_all_its_names_and_paths() {
        let word = |word: &str| word.to_owned();
        let copies = vec![(word("a"), word("b")), (word("c"), word("d"))];
        for (call, words) in [
            (PoolCall::Names, &[][..]),
            (
                PoolCall::List {
                    pool: word("pool"),
                    path: word("path"),
                    after: Some(word("after")),
                    limit: 1,
                },
                &["pool", "path", "after"],
            ),
            (
                PoolCall::Rename {
                    pool: word("pool"),
                    source: word("source"),
                    target: word("target"),
                },
                &["pool", "source", "target"],
            ),
            (
                PoolCall::CloneImages {
                    pool: word("pool"),
                    copies,
                },
                &["pool", "a", "b", "c", "d"],
            ),
        ] {
            assert_eq!(call.words(), words);
        }
    }
}
