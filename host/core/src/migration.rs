//! Types for the migration of an older version's records to a new version.

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

/// A change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// Write it, whether or not it exists.
    Put {
        /// Its key.
        key: String,
        /// Its value.
        value: Vec<u8>,
    },
    /// Remove it, if it exists.
    Remove {
        /// Its key.
        key: String,
    },
}

impl StateChange {
    /// The key of the record.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Remove { key } => key,
        }
    }
}
