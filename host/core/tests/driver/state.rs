//! A store in memory that tracks which records are durable.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use wasmount_core::state::{
    Expect, Keyspace, Outcome, StateEntry, StateError, StateStore, record_bytes,
};

type Result<T> = std::result::Result<T, StateError>;

#[derive(Default)]
pub(crate) struct FakeState {
    entries: Mutex<BTreeMap<(Keyspace, String), StateEntry>>,
    pub(crate) synced: AtomicU64,
    revision: AtomicU64,
}

fn holds(expect: Expect, found: Option<&StateEntry>) -> bool {
    match expect {
        Expect::Any => true,
        Expect::Absent => found.is_none(),
        Expect::Revision(revision) => found.is_some_and(|found| found.revision == revision),
    }
}

#[async_trait]
impl StateStore for FakeState {
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>> {
        let entries = self.entries.lock().unwrap();
        Ok(entries.get(&(space.clone(), key.to_owned())).cloned())
    }
    async fn put(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome> {
        let mut entries = self.entries.lock().unwrap();
        let place = (space.clone(), key.to_owned());
        if !holds(expect, entries.get(&place)) {
            return Ok(Outcome::Conflict(entries.get(&place).cloned()));
        }
        let revision = 1 + self.revision.fetch_add(1, Ordering::SeqCst);
        let entry = StateEntry {
            key: key.to_owned(),
            value,
            revision,
        };
        entries.insert(place, entry);
        Ok(Outcome::Done(revision))
    }
    async fn remove(&self, space: &Keyspace, key: &str, expect: Expect) -> Result<Outcome> {
        let mut entries = self.entries.lock().unwrap();
        let place = (space.clone(), key.to_owned());
        if !holds(expect, entries.get(&place)) {
            return Ok(Outcome::Conflict(entries.get(&place).cloned()));
        }
        let removed = entries.remove(&place);
        Ok(Outcome::Done(removed.map_or(0, |entry| entry.revision)))
    }
    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>> {
        let entries = self.entries.lock().unwrap();
        let found = entries
            .iter()
            .filter(|((owner, _), _)| owner == space)
            .map(|(_, entry)| entry)
            .filter(|entry| entry.key.starts_with(prefix))
            .filter(|entry| after.is_none_or(|after| entry.key.as_str() > after));
        Ok(found.take(limit as usize).cloned().collect())
    }
    async fn size(&self, space: &Keyspace) -> Result<u64> {
        let entries = self.entries.lock().unwrap();
        let own = entries.iter().filter(|((owner, _), _)| owner == space);
        let sizes = own.map(|((_, key), entry)| record_bytes(key, entry.value.len()));
        Ok(sizes.sum())
    }
    async fn sync(&self) -> Result<()> {
        let revision = self.revision.load(Ordering::SeqCst);
        self.synced.store(revision, Ordering::SeqCst);
        Ok(())
    }
}
