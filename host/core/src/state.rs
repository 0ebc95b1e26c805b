//! The trait of the revisioned key-value store.

use crate::names::DriverName;
use async_trait::async_trait;

/// Longest key of a backend, in bytes.
pub const STATE_KEY_BYTES: usize = 1024;
/// Largest value of a backend, in bytes. A record, not a data set: one guest call may carry 4 MiB at most.
pub const STATE_VALUE_BYTES: usize = 1 << 20;
/// Most entries of one scan answer; a host may give fewer than asked.
pub const STATE_SCAN_ENTRIES: u32 = 1000;

/// What a record weighs besides its key and value, in bytes: its revision, and its share of the store's pages.
const RECORD_BYTES: u64 = 64;

/// What a record takes of a backend's `limits.stateBytes`.
pub fn record_bytes(key: &str, value_bytes: usize) -> u64 {
    let bytes = u64::try_from(key.len().saturating_add(value_bytes)).unwrap_or(u64::MAX);
    bytes.saturating_add(RECORD_BYTES)
}

/// Whose keys: spaces never see one another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keyspace {
    /// The driver.
    pub driver: DriverName,
    /// Its backend's keys, or the host's own about it.
    pub owner: KeyspaceOwner,
}

/// Who writes a keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyspaceOwner {
    /// The plugin.
    Backend,
    /// The host: notes, format intents, last good answers.
    Host,
}

/// A stored value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEntry {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Opaque; grows with every change of the key.
    pub revision: u64,
}

/// What must be true for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key does not exist.
    Absent,
    /// The key has this revision.
    Revision(u64),
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done; the new revision. Of a removal: the last one (0 when there was nothing).
    Done(u64),
    /// Not done, and what is stored instead.
    Conflict(Option<StateEntry>),
}

/// One write of several that belong together; nothing is expected of what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    /// Whose key.
    pub space: Keyspace,
    /// Which.
    pub key: String,
    /// None: it is removed.
    pub value: Option<Vec<u8>>,
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A key or value breaks a limit.
    #[error("{what} is {length} bytes long, at most {limit} are allowed")]
    TooLarge {
        /// Key or value.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The backend's records take as much as it may have; nothing was changed.
    #[error(
        "the records of this backend take all of limits.stateBytes ({limit} bytes): remove some, or raise the limit in the backend document"
    )]
    OverLimit {
        /// The limit in bytes.
        limit: u64,
    },
    /// The disk is full; nothing was changed.
    #[error("no space left for the state store")]
    Full,
    /// It writes one record at a time; nothing was changed.
    #[error("this store cannot write several records at once")]
    NoTransactions,
    /// Anything else that the store says.
    #[error("the state store failed to {operation}")]
    Failed {
        /// What it was asked.
        operation: &'static str,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A durable key-value store with optimistic concurrency.
#[async_trait]
pub trait StateStore: Send + Sync + 'static {
    /// The value of a key.
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError>;
    /// Writes; visible to others at once, durable after [`StateStore::sync`].
    async fn put(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome, StateError>;
    /// Removes; visible to others at once, durable after [`StateStore::sync`].
    async fn remove(
        &self,
        space: &Keyspace,
        key: &str,
        expect: Expect,
    ) -> Result<Outcome, StateError>;
    /// In key order, keys greater than `after` that begin with `prefix`, at most `limit` and at most [`STATE_SCAN_ENTRIES`]. Empty: the end.
    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError>;
    /// What all records of a space take, as [`record_bytes`] counts. A change that is not durable yet may count beside what it replaces, so
    /// that it is never too little.
    async fn size(&self, space: &Keyspace) -> Result<u64, StateError>;
    /// Returns when every write that was visible before the call is on stable storage. One wait serves all who wait.
    async fn sync(&self) -> Result<(), StateError>;
    /// Whether it can write several records at once.
    fn has_transactions(&self) -> bool {
        false
    }
    /// Writes all of these or none, whatever happens to the host, and returns when they are on stable storage. Meanwhile nobody else may write
    /// the same keys.
    async fn apply(&self, _writes: Vec<StateWrite>) -> Result<(), StateError> {
        Err(StateError::NoTransactions)
    }
}

/// Whether a key may be one.
pub fn check_key(key: &str) -> Result<(), StateError> {
    check_length("key", key.len(), STATE_KEY_BYTES)
}

/// Whether a value may be one.
pub fn check_value(value: &[u8]) -> Result<(), StateError> {
    check_length("value", value.len(), STATE_VALUE_BYTES)
}

fn check_length(what: &'static str, length: usize, limit: usize) -> Result<(), StateError> {
    if length > limit {
        return Err(StateError::TooLarge {
            what,
            length,
            limit,
        });
    }
    Ok(())
}
