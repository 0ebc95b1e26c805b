//! A host in memory: a store and pools that remember the order of their requests. The real store and mounter have their own tests; here the order
//! matters.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use wasmount_core::mounter::*;
use wasmount_core::pool::{PoolCall, PoolReply, PoolUsage};
use wasmount_core::state::{
    Expect, Keyspace, KeyspaceOwner, Outcome, StateEntry, StateError, StateStore, StateWrite,
    record_bytes,
};

/// A pool whose directory does not exist.
const MISSING_POOL: &str = "missing";

/// A host in memory: its requests, in order, and its stored data.
#[derive(Default)]
pub(crate) struct Memory {
    events: Mutex<Vec<String>>,
    entries: Mutex<BTreeMap<(KeyspaceOwner, String), StateEntry>>,
    is_full: AtomicBool,
    is_unsynced: AtomicBool,
    is_simple: AtomicBool,
    /// While a test holds it for writing, writes wait.
    gate: Arc<RwLock<()>>,
}

impl Memory {
    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    /// From now on writes do not reach the disk.
    pub(crate) fn fill_disk(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Writes reach the disk again.
    pub(crate) fn empty_disk(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// From now on the store writes one record at a time, as a store of Kubernetes objects does.
    pub(crate) fn lose_transactions(&self) {
        self.is_simple.store(true, Ordering::Relaxed);
    }

    /// Writes wait during the lifetime of the guard.
    pub(crate) fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).try_write_owned().unwrap()
    }

    fn note(&self, event: impl Into<String>) {
        self.events.lock().unwrap().push(event.into());
    }
}

#[async_trait]
impl StateStore for Memory {
    async fn get(&self, space: &Keyspace, key: &str) -> Result<Option<StateEntry>, StateError> {
        let place = (space.owner, key.to_owned());
        Ok(self.entries.lock().unwrap().get(&place).cloned())
    }

    async fn put(
        &self,
        space: &Keyspace,
        key: &str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Result<Outcome, StateError> {
        self.note(format!("put {} {key}", space.driver));
        self.is_unsynced.store(true, Ordering::Relaxed);
        drop(self.gate.read().await);
        let mut entries = self.entries.lock().unwrap();
        let place = (space.owner, key.to_owned());
        let there = entries.get(&place).cloned();
        if expect == Expect::Absent && there.is_some() {
            return Ok(Outcome::Conflict(there));
        }
        let revision = there.map_or(1, |entry| entry.revision + 1);
        let entry = StateEntry {
            key: key.to_owned(),
            value,
            revision,
        };
        entries.insert(place, entry);
        Ok(Outcome::Done(revision))
    }

    async fn remove(&self, space: &Keyspace, key: &str, _: Expect) -> Result<Outcome, StateError> {
        self.note(format!("remove {key}"));
        self.is_unsynced.store(true, Ordering::Relaxed);
        let place = (space.owner, key.to_owned());
        let removed = self.entries.lock().unwrap().remove(&place);
        Ok(Outcome::Done(removed.map_or(0, |entry| entry.revision)))
    }

    async fn scan(
        &self,
        space: &Keyspace,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StateEntry>, StateError> {
        let entries = self.entries.lock().unwrap();
        let wanted = entries
            .iter()
            .filter(|((owner, _), _)| *owner == space.owner)
            .map(|(_, entry)| entry)
            .filter(|entry| entry.key.starts_with(prefix))
            .filter(|entry| after.is_none_or(|after| entry.key.as_str() > after));
        Ok(wanted.take(limit as usize).cloned().collect())
    }

    async fn size(&self, space: &Keyspace) -> Result<u64, StateError> {
        let entries = self.entries.lock().unwrap();
        let sizes = entries
            .iter()
            .filter(|((owner, _), _)| *owner == space.owner)
            .map(|((_, key), entry)| record_bytes(key, entry.value.len()));
        Ok(sizes.sum())
    }

    fn has_transactions(&self) -> bool {
        !self.is_simple.load(Ordering::Relaxed)
    }

    async fn apply(&self, writes: Vec<StateWrite>) -> Result<(), StateError> {
        self.note(format!("apply {}", writes.len()));
        if self.is_full.load(Ordering::Relaxed) {
            return Err(StateError::Full);
        }
        for StateWrite { space, key, value } in writes {
            match value {
                Some(value) => drop(self.put(&space, &key, value, Expect::Any).await?),
                None => drop(self.remove(&space, &key, Expect::Any).await?),
            }
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), StateError> {
        self.note("sync");
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(StateError::Full),
            false => {
                self.is_unsynced.store(false, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn is_durable(&self, _: &Keyspace) -> bool {
        !self.is_unsynced.load(Ordering::Relaxed)
    }
}

/// Only pools: a guest can use nothing else of a mounter.
#[async_trait]
impl Mounter for Memory {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse, MountError> {
        let MounterRequest::Pool(_, call) = request else {
            unreachable!("a guest reaches nothing but pools")
        };
        self.note(format!("pool {call:?}"));
        if call.is_destructive() {
            drop(self.gate.read().await);
            self.note("removed");
        }
        if matches!(&call, PoolCall::Capacity { pool } if pool == MISSING_POOL) {
            return Err(MountError::precondition("/nowhere/pool", "make it"));
        }
        Ok(MounterResponse::Pool(match call {
            PoolCall::Names => PoolReply::Names(vec!["volumes".to_owned()]),
            PoolCall::Capacity { .. } => PoolReply::Capacity(PoolUsage {
                total_bytes: 100 << 30,
                available_bytes: 50 << 30,
                promised_bytes: 0,
                used_bytes: 50 << 30,
            }),
            PoolCall::Stat { .. } => PoolReply::Stat(None),
            PoolCall::List { .. } => PoolReply::List(Vec::new()),
            PoolCall::SetQuota { .. } => PoolReply::Quota { enforced: false },
            _ => PoolReply::Done,
        }))
    }
}
