//! Misuses the store of records: too large, too many, or in a call that has no access.

use super::{Deed, Table};
use wasmount_guest::state::{self, Expect};
use wasmount_guest::{Error, Pool};

/// The prefix of the keys that fill the store.
const FILLER: &str = "filler-";
/// The size of each value, in bytes.
const FILLER_BYTES: usize = 512;
/// The number of records.
const MILLION: u32 = 1_000_000;
/// Records in a page when they are removed.
const PAGE: u32 = 1000;

pub const DEEDS: Table<Deed> = &[
    ("write-state", || state::create("written", &1_u64).map(drop)),
    ("write-state-and-trap", || {
        let _ = state::create("written", &1_u64);
        panic!("after a write")
    }),
    ("write-and-remove", || {
        let _ = state::create("written", &1_u64);
        let _ = Pool::named("volumes").remove_directory("old");
        state::delete("written")
    }),
    ("read-state", || state::get::<u64>("written").map(drop)),
    ("state-on-node", || state::get::<u64>("key").map(drop)),
    ("empty-key", || state::get::<u64>("").map(drop)),
    ("big-key", || state::get::<u64>(&"k".repeat(1025)).map(drop)),
    ("big-value", || {
        state::put("key", &vec![0_u8; (1 << 20) + 1], Expect::Any).map(drop)
    }),
    ("million-keys", || (0..MILLION).try_for_each(fill)),
    ("one-more-key", || fill(MILLION)),
    ("million-keys-at-any-price", || {
        // Ignores errors.
        (0..MILLION).for_each(|number| drop(fill(number)));
        Ok(())
    }),
    ("remove-keys", remove_keys),
];

fn fill(number: u32) -> Result<(), Error> {
    let value = vec![0_u8; FILLER_BYTES];
    state::put(&format!("{FILLER}{number:07}"), &value, Expect::Any).map(drop)
}

fn remove_keys() -> Result<(), Error> {
    loop {
        let found = state::scan::<Vec<u8>>(FILLER, None, PAGE)?;
        if found.is_empty() {
            return Ok(());
        }
        for (key, _) in found {
            state::delete(&key)?;
        }
    }
}
