//! Records of an older version on their way to a new one: the words.

/// Most records of a page.
pub const MIGRATION_PAGE_ENTRIES: usize = 256;
/// Most bytes of keys and values of a page; one larger record comes alone. A guest holds a page and its answer in memory at once, and may have
/// 64 MiB.
pub const MIGRATION_PAGE_BYTES: usize = 1 << 20;

/// What a version makes of the records of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// They are good as they are.
    Unneeded,
    /// They are added to, and the other version can work with the result.
    Additive,
    /// The other version cannot read the result.
    Rewriting,
}

/// One record on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateChange {
    /// Write it, whatever is there.
    Put {
        /// Its key.
        key: String,
        /// Its value.
        value: Vec<u8>,
    },
    /// Remove it, if it is there.
    Remove {
        /// Its key.
        key: String,
    },
}

impl StateChange {
    /// The record that it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Remove { key } => key,
        }
    }
}
