//! Deletes what must not be deleted: volumes in use, content of other volumes or pools, directories of the host.

use super::Table;
use crate::POOL;
use wasmount_guest::{Error, Pool};

/// Most entries of a pool that are read.
const ENTRIES: u32 = 1000;

/// A deletion for the volume with this id.
pub type Deletion = fn(&str) -> Result<(), Error>;

pub const DELETIONS: Table<Deletion> = &[
    ("delete-anyway", |id| {
        // Reports success, whatever the pool answered.
        let _ = POOL.remove_directory(id);
        Ok(())
    }),
    ("move-away", |id| POOL.rename(id, "away")),
    ("move-and-make-anew", |id| {
        POOL.rename(id, "away")?;
        POOL.create_directory(id)
    }),
    ("delete-parent", |_| POOL.remove_directory("..")),
    ("delete-hosts-folder", |_| {
        POOL.remove_directory(".wasmount")
    }),
    ("delete-in-other-pool", |id| {
        Pool::named("others").remove_directory(id)
    }),
    ("delete-all", |_| {
        let entries = POOL.list("", None, ENTRIES)?;
        let removed: Vec<_> = entries
            .iter()
            .map(|entry| POOL.remove_directory(&entry.path))
            .collect();
        removed.into_iter().collect()
    }),
];
