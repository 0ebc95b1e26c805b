//! Leaves state behind and fails, so that a client must not treat the error as final. Also destroys what another version has created.

use super::{Deed, Table};
use crate::POOL;
use wasmount_guest::{Error, state};

/// The directory that is left in the pool.
const TREE: &str = "behave.half-made";
/// The record that is left in the store.
const KEY: &str = "half-made";
/// Most records and entries that are destroyed.
const ENTRIES: u32 = 1000;

pub const DEEDS: Table<Deed> = &[
    ("make-and-trap", || {
        POOL.create_directory(TREE)?;
        panic!("after the tree was made")
    }),
    ("make-and-exhaust", || {
        POOL.create_directory(TREE)?;
        exhausted()
    }),
    ("make-undo-and-exhaust", || {
        POOL.create_directory(TREE)?;
        POOL.set_quota(TREE, Some(1))?;
        POOL.remove_directory(TREE)?;
        exhausted()
    }),
    ("write-and-exhaust", || {
        state::create(KEY, &1_u64)?;
        exhausted()
    }),
    ("record-once", || {
        match state::put("once", &1_u64, state::Expect::Absent)? {
            state::Outcome::Conflict(_) => Err(Error::already_exists("it is there")),
            state::Outcome::Done(_) => Ok(()),
        }
    }),
    ("write-undo-and-exhaust", || {
        state::create(KEY, &1_u64)?;
        state::delete(KEY)?;
        exhausted()
    }),
];

fn exhausted() -> Result<(), Error> {
    Err(Error::resource_exhausted("no room"))
}

/// Empties the store and the pool, and leaves a record and a tree of its own. It ignores errors and continues.
pub fn destroy() {
    for (key, _) in state::scan::<Vec<u8>>("", None, ENTRIES).unwrap_or_default() {
        let _ = state::delete(&key);
    }
    for entry in POOL.list("", None, ENTRIES).unwrap_or_default() {
        let _ = POOL.remove_directory(&entry.path);
    }
    let _ = state::create("destroyed", &1_u64);
    let _ = POOL.create_directory("destroyed");
}

/// Reads from both.
pub fn look() -> Result<(), Error> {
    state::scan::<Vec<u8>>("", None, ENTRIES)?;
    POOL.stat("old").map(drop)
}
