//! Types for the migration of an older version's records to a new version.

use std::collections::BTreeMap;

/// Most records of a page.
pub const MIGRATION_PAGE_ENTRIES: usize = 256;
/// Most bytes of keys and values of a page; a larger record is a page by itself. A guest holds a page and its answer in memory at once, and may have
/// 64 MiB.
pub const MIGRATION_PAGE_BYTES: usize = 1 << 20;

/// How a version changes the records of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// The records are usable unchanged.
    Unneeded,
    /// The records are extended, and the other version can still work with the result.
    Additive,
    /// The other version cannot read the result.
    Rewriting,
}

/// Records to write, by key, whether or not they exist; none: the record is removed.
pub type StateChanges = BTreeMap<String, Option<Vec<u8>>>;
