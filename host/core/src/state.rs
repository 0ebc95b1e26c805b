//! The trait of the revisioned key-value store.

use crate::names::DriverName;
use async_trait::async_trait;
use std::time::Duration;

/// Longest key of a backend, in bytes.
pub const STATE_KEY_BYTES: usize = 1024;
/// Largest value of a backend, in bytes. A record, not a data set: one guest call may carry 4 MiB at most.
pub const STATE_VALUE_BYTES: usize = 1 << 20;
/// Most entries of one scan answer; a host may give fewer than requested.
pub const STATE_SCAN_ENTRIES: u32 = 1000;
/// A scan answer gets no further entry above this, in bytes: half of what one guest call may carry by default, since the last entry may be as large
/// as a value can be.
pub const STATE_SCAN_BYTES: usize = 2 << 20;

/// Size of a record besides its key and value, in bytes: its revision, and its share of the store's pages.
const RECORD_BYTES: u64 = 64;

/// The part of a backend's `limits.stateBytes` that a record uses.
pub fn record_bytes(key: &str, value_bytes: usize) -> u64 {
    let bytes = u64::try_from(key.len().saturating_add(value_bytes)).unwrap_or(u64::MAX);
    bytes.saturating_add(RECORD_BYTES)
}

/// The owner of keys: keyspaces are isolated from each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keyspace {
    /// The driver.
    pub driver: DriverName,
    /// The owner: its backend, or the host for its records about the driver.
    pub owner: KeyspaceOwner,
}

/// The writer of a keyspace.
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

/// The precondition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key does not exist.
    Absent,
    /// The key has this revision.
    Revision(u64),
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done; the new revision. For a removal: the last one (0 if the key did not exist).
    Done(u64),
    /// Not done; the stored entry.
    Conflict(Option<StateEntry>),
}

/// One of several writes that belong together, without a precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    /// The keyspace.
    pub space: Keyspace,
    /// The key.
    pub key: String,
    /// None: the key is removed.
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
    /// The backend's records have reached their limit; nothing was changed.
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
    /// The store writes one record at a time; nothing was changed.
    #[error("this store cannot write several records at once")]
    NoTransactions,
    /// Any other error of the store.
    #[error("the state store failed to {operation}")]
    Failed {
        /// The operation.
        operation: &'static str,
        /// The store's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StateError {
    /// [`StateError::Failed`].
    pub fn failed(
        operation: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed {
            operation,
            source: source.into(),
        }
    }
}

/// The use of a store's file since the start of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreUsage {
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// How often waiting writes were committed, successfully or not.
    pub commits: u64,
    /// How long that took in all.
    pub commit_time: Duration,
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
    /// In key order, keys greater than `after` that begin with `prefix`, at most `limit` and at most [`STATE_SCAN_ENTRIES`], and no further
    /// one above [`STATE_SCAN_BYTES`]. Empty: the end.
    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError>;
    /// The same to the end, in as many scans as it takes.
    async fn scan_all(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<StateEntry>, StateError> {
        let mut all = Vec::<StateEntry>::new();
        loop {
            let after = all.last().map(|entry| entry.key.as_str()).or(after);
            let page = self.scan(space, prefix, after, STATE_SCAN_ENTRIES).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }
    /// The size of all records of a keyspace, as [`record_bytes`] counts. A change that is not durable yet may count in addition to the record that
    /// it replaces, so that the result is never too small.
    async fn size(&self, space: &Keyspace) -> Result<u64, StateError>;
    /// Returns when every write that was visible before the call is on stable storage. One wait serves all waiting callers.
    async fn sync(&self) -> Result<(), StateError>;
    /// Whether all that a reader of this keyspace has seen is on stable storage.
    fn is_durable(&self, _space: &Keyspace) -> bool {
        true
    }
    /// The use of the store's file; none: its records are in no file of this host.
    fn usage(&self) -> Option<StoreUsage> {
        None
    }
    /// Whether the store can write several records at once.
    fn has_transactions(&self) -> bool {
        false
    }
    /// Writes all of these or none, even if the host is killed, and returns when they are on stable storage. Meanwhile no other caller may write the
    /// same keys.
    async fn apply(&self, _writes: Vec<StateWrite>) -> Result<(), StateError> {
        Err(StateError::NoTransactions)
    }
}

/// Whether a key is within the limits.
pub fn check_key(key: &str) -> Result<(), StateError> {
    check_length("key", key.len(), STATE_KEY_BYTES)
}

/// Whether a value is within the limits.
pub fn check_value(value: &[u8]) -> Result<(), StateError> {
    check_length("value", value.len(), STATE_VALUE_BYTES)
}

/// Whether a length is within a limit.
pub fn check_length(what: &'static str, length: usize, limit: usize) -> Result<(), StateError> {
    if length > limit {
        return Err(StateError::TooLarge {
            what,
            length,
            limit,
        });
    }
    Ok(())
}
