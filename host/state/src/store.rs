//! The store: expectations, limits, and the merge of waiting writes with durable records. It knows nothing of files or threads.
//!
//! Reads and writes run on the caller's thread: they touch memory and take microseconds, a hop to another thread costs more. A scan may be long and
//! runs on a blocking thread; a sync waits for the committer.

use crate::committer::{Committer, Shared};
use crate::database::{Database, OpenError, Snapshot};
use crate::lock::DataDirLock;
use crate::pending::{Pending, Write};
use async_trait::async_trait;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use wasmount_core::state::{
    Expect, Keyspace, Outcome, STATE_SCAN_BYTES, STATE_SCAN_ENTRIES, StateEntry, StateError,
    StateStore, StateWrite, StoreUsage, check_key, check_value,
};

/// Most writes of one transaction: together with the writes that undo it, a quarter of how far revisions jump at each start
/// ([`crate::pending::REVISIONS_AHEAD`]).
const TRANSACTION_WRITES: usize = 1 << 17;

/// The store in a file of the data directory.
#[derive(Debug)]
pub struct RedbStore {
    // Dropped in this order: the last commit is made before the lock is released.
    committer: Committer,
    shared: Arc<Shared>,
    _lock: DataDirLock,
}

impl RedbStore {
    /// Locks the data directory (without waiting) and opens its store; creates both if they are missing. Blocks for the disk.
    pub fn open(data_dir: &Path) -> Result<Arc<RedbStore>, OpenError> {
        Self::open_locked(DataDirLock::acquire(data_dir, false)?, false)
    }

    /// The same for a directory that is already locked, for callers that waited for the lock. `is_expected`: other files in the directory show that
    /// there was a store; one that is created then is [`RedbStore::is_lost`].
    pub fn open_locked(lock: DataDirLock, is_expected: bool) -> Result<Arc<RedbStore>, OpenError> {
        let (database, last_revision) = Database::open(lock.directory(), is_expected)?;
        let shared = Arc::new(Shared::new(database, Pending::after(last_revision)));
        let committer = Committer::start(Arc::clone(&shared)).map_err(|source| OpenError::Io {
            path: lock.directory().to_owned(),
            source,
        })?;
        Ok(Arc::new(Self {
            committer,
            shared,
            _lock: lock,
        }))
    }

    /// Whether the store was created empty in place of a lost one, in this start or an earlier one, and no administrator has accepted that.
    pub fn is_lost(&self) -> Result<bool, StateError> {
        self.shared.database.is_lost()
    }

    /// An administrator accepts that the store was created empty. Durable on return; blocks for the disk.
    pub fn accept_loss(&self) -> Result<(), StateError> {
        self.shared.database.accept_loss()
    }

    /// Writes under the lock of the waiting writes, so that no other write happens between the check and the change.
    fn change(
        &self,
        space: &Keyspace,
        key: &str,
        value: Option<Vec<u8>>,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        let mut pending = self.shared.pending();
        // A value without an expectation does not need the current record.
        let current = if value.is_some() && expect == Expect::Any {
            None
        } else {
            current(&self.shared.database, &pending, space, key)?
        };
        let as_expected = match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::Revision(revision) => {
                current.as_ref().map(|entry| entry.revision) == Some(revision)
            }
        };
        if !as_expected {
            return Ok(Outcome::Conflict(current));
        }
        let revision = match (value, current) {
            (Some(value), _) => pending.write(space, key, Some(Arc::from(value))),
            (None, Some(current)) => {
                pending.write(space, key, None);
                current.revision
            }
            (None, None) => 0,
        };
        Ok(Outcome::Done(revision))
    }
}

#[async_trait]
impl StateStore for RedbStore {
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError> {
        check_key(key)?;
        read(&self.shared, space, key)
    }

    async fn put(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        check_key(key)?;
        check_value(&value)?;
        if !self.shared.database.has_space() {
            // A value that is not larger than before is allowed like a removal: a list that loses an entry, for example.
            let there = self.get(space, key).await?;
            if there.is_none_or(|there| there.value.len() < value.len()) {
                return Err(StateError::Full);
            }
        }
        if self.shared.pending().is_full() {
            self.committer.commit().await?;
        }
        self.change(space, key, Some(value), expect)
    }

    async fn remove(
        &self,
        space: &Keyspace,
        key: &str,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        check_key(key)?;
        // Never rejected for lack of space: a removal frees some.
        self.change(space, key, None, expect)
    }

    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError> {
        let shared = Arc::clone(&self.shared);
        let space = space.clone();
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        let scan = tokio::task::spawn_blocking(move || {
            let from = match &after {
                Some(after) if *after >= prefix => Bound::Excluded(after.as_str()),
                _ => Bound::Included(prefix.as_str()),
            };
            // Both under one lock: a commit in between would move entries from one to the other.
            let (waiting, durable) = {
                let pending = shared.pending();
                let durable = shared.database.snapshot(&space)?;
                (pending.range(&space, from, &prefix), durable)
            };
            let merged = merge(waiting, &durable, from, &prefix, limit);
            if merged.is_err() {
                shared.database.close();
            }
            merged
        });
        scan.await
            .map_err(|error| StateError::failed("scan", error))?
    }

    async fn size(&self, space: &Keyspace) -> Result<u64, StateError> {
        // Both under one lock, as for a scan.
        let pending = self.shared.pending();
        let durable = self.shared.database.size(space)?;
        Ok(durable.saturating_add(pending.size(space)))
    }

    async fn sync(&self) -> Result<(), StateError> {
        if self.shared.pending().is_empty() {
            return Ok(());
        }
        self.committer.commit().await
    }

    fn is_durable(&self, space: &Keyspace) -> bool {
        !self.shared.pending().has_any(space)
    }

    fn usage(&self) -> Option<StoreUsage> {
        Some(self.shared.usage())
    }

    fn has_transactions(&self) -> bool {
        true
    }

    async fn apply(&self, writes: Vec<StateWrite>) -> Result<(), StateError> {
        if writes.len() > TRANSACTION_WRITES {
            return Err(StateError::TooLarge {
                what: "transaction",
                length: writes.len(),
                limit: TRANSACTION_WRITES,
            });
        }
        for write in &writes {
            check_key(&write.key)?;
            check_value(write.value.as_deref().unwrap_or_default())?;
        }
        if !self.shared.database.has_space() {
            return Err(StateError::Full);
        }
        let shared = Arc::clone(&self.shared);
        let written = tokio::task::spawn_blocking(move || write_all(&shared, writes));
        let before = written
            .await
            .map_err(|error| StateError::failed("write to", error))??;
        // One commit contains all waiting writes, so the disk has all of the transaction or nothing.
        let committed = self.committer.commit().await;
        if committed.is_err() {
            let mut pending = self.shared.pending();
            for write in before {
                pending.write(&write.space, &write.key, write.value.map(Arc::from));
            }
        }
        committed
    }
}

/// Writes all under one lock. Returns the writes that undo them, read before without it: nobody else writes the same keys
/// ([`StateStore::apply`]), and calls of other backends must not wait for as many reads.
fn write_all(shared: &Shared, writes: Vec<StateWrite>) -> Result<Vec<StateWrite>, StateError> {
    let mut before = Vec::new();
    for write in &writes {
        let there = read(shared, &write.space, &write.key)?;
        before.push(StateWrite {
            value: there.map(|entry| entry.value),
            ..write.clone()
        });
    }
    let mut pending = shared.pending();
    for write in writes {
        pending.write(&write.space, &write.key, write.value.map(Arc::from));
    }
    Ok(before)
}

fn read(shared: &Shared, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError> {
    let waiting = shared
        .pending()
        .get(space, key)
        .map(|write| written(key, write));
    match waiting {
        Some(entry) => Ok(entry),
        None => shared.database.get(space, key),
    }
}

/// The same for a caller that holds the lock.
fn current(
    database: &Database,
    pending: &Pending,
    space: &Keyspace,
    key: &str,
) -> Result<Option<StateEntry>, StateError> {
    match pending.get(space, key) {
        Some(write) => Ok(written(key, write)),
        None => database.get(space, key),
    }
}

fn written(key: &str, write: &Write) -> Option<StateEntry> {
    let value = write.value.as_ref()?;
    Some(StateEntry {
        key: key.to_owned(),
        value: value.to_vec(),
        revision: write.revision,
    })
}

/// Merges two runs in key order; for a key in both, the waiting write is newer.
fn merge(
    waiting: Vec<(String, Write)>,
    durable: &Snapshot,
    from: Bound<&str>,
    prefix: &str,
    limit: u32,
) -> Result<Vec<StateEntry>, StateError> {
    let limit = usize::try_from(limit.min(STATE_SCAN_ENTRIES)).unwrap_or(usize::MAX);
    let mut waiting = waiting.into_iter().peekable();
    let mut durable = durable.range(from, prefix)?.peekable();
    let mut entries = Vec::new();
    let mut bytes = 0;
    while entries.len() < limit && bytes < STATE_SCAN_BYTES {
        let order = match (waiting.peek(), durable.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) | (Some(_), Some(Err(_))) => std::cmp::Ordering::Greater,
            (Some((key, _)), Some(Ok(entry))) => key.cmp(&entry.key),
        };
        if order.is_eq() {
            durable.next();
        }
        let entry = if order.is_gt() {
            durable.next().transpose()?
        } else {
            waiting
                .next()
                .and_then(|(key, write)| written(&key, &write))
        };
        if let Some(entry) = entry {
            bytes += entry.key.len() + entry.value.len();
            entries.push(entry);
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
