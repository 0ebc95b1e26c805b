//! Migrates records from one version to another: the writes, and what is needed to undo them.
//!
//! Marks of migrations and other notes are in the host's own keyspace, so that they are written in one transaction with the records.

mod content;
mod notes;

use crate::admission::call_at_admission;
use crate::refusal::Refusal;
use content::{Content, content};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::migration::{MIGRATION_PAGE_BYTES, MIGRATION_PAGE_ENTRIES, StateChanges};
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;
use wasmount_core::state::{
    Expect, Keyspace, KeyspaceOwner, STATE_SCAN_ENTRIES, StateEntry, StateError, StateStore,
    StateWrite,
};
use wasmount_engine::WasmBackend;

/// Key that holds the version for which the records were last written.
const FORM: &str = "records";
/// Prefix of the key of each mark; the version's number follows, zero-padded so that keys sort by number.
const MARKS: &str = "migration/";
/// Prefix of the keys of replaced records.
const REPLACED: &str = "replaced/";
/// Digits of the largest number.
const DIGITS: usize = 20;

/// The records of a backend.
pub(crate) struct Records {
    state: Arc<dyn StateStore>,
    /// The keyspace of the host, for its own notes.
    own: Keyspace,
    /// The keyspace of the backend.
    backends: Keyspace,
}

/// A migration that the version before cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The version that it migrates to.
    pub(crate) number: u64,
    /// The version before it.
    pub(crate) before: u64,
    /// Fingerprint of the records right after it: while it is the same, nothing was written since.
    fingerprint: String,
    /// How many records it changed.
    changed: usize,
}

#[derive(Serialize, Deserialize)]
struct Form {
    version: u64,
}

impl Records {
    pub(crate) fn of(state: &Arc<dyn StateStore>, driver: &DriverName) -> Self {
        let keyspace = |owner| Keyspace {
            driver: driver.clone(),
            owner,
        };
        Self {
            state: Arc::clone(state),
            own: keyspace(KeyspaceOwner::Host),
            backends: keyspace(KeyspaceOwner::Backend),
        }
    }

    /// Migrations for versions above this one, the lowest first.
    pub(crate) async fn marks_above(&self, number: u64) -> Result<Vec<Mark>, Refusal> {
        let above = mark_key(number);
        let entries = self.state.scan_all(&self.own, MARKS, Some(&above)).await;
        let entries = entries.map_err(unread)?;
        let marks = entries.iter().map(|entry| parsed(&entry.value));
        marks.collect()
    }

    /// What a version makes of all records of another version. Nothing is written.
    pub(crate) async fn changes(
        &self,
        backend: &WasmBackend,
        from_version: &str,
        time: Duration,
    ) -> Result<StateChanges, Refusal> {
        let mut changes = StateChanges::new();
        let mut waiting: Vec<StateEntry> = Vec::new();
        let mut after = None;
        loop {
            let (space, after_key) = (&self.backends, after.as_deref());
            let page = self.state.scan(space, "", after_key, STATE_SCAN_ENTRIES);
            let page = page.await.map_err(unread)?;
            let is_last = page.is_empty();
            after = page.last().map(|entry| entry.key.clone());
            for entry in page {
                if !fits(&waiting, &entry) {
                    migrate_page(backend, from_version, time, &waiting, &mut changes).await?;
                    waiting.clear();
                }
                waiting.push(entry);
            }
            if is_last {
                if !waiting.is_empty() {
                    migrate_page(backend, from_version, time, &waiting, &mut changes).await?;
                }
                return Ok(changes);
            }
        }
    }

    /// Writes changes that the version before can read. In a store without transactions they are written one after the other: a part of them does no
    /// harm. `may`: whether this host may still write.
    pub(crate) async fn add(
        &self,
        changes: StateChanges,
        most_bytes: u64,
        may: impl Fn() -> bool,
    ) -> Result<(), Refusal> {
        let after = self.content(&changes).await?;
        within(&after, most_bytes)?;
        if self.state.has_transactions() {
            let writes = self.writes(changes).collect();
            return self.state.apply(writes).await.map_err(unwritten);
        }
        let space = &self.backends;
        for (key, value) in changes {
            if !may() {
                return Err(Refusal::NotElected);
            }
            let written = match value {
                Some(value) => self.state.put(space, &key, value, Expect::Any).await,
                None => self.state.remove(space, &key, Expect::Any).await,
            };
            written.map_err(unwritten)?;
        }
        self.state.sync().await.map_err(unwritten)
    }

    /// Writes changes that the version before cannot read, and what is needed to undo them, in one transaction.
    pub(crate) async fn rewrite(
        &self,
        changes: StateChanges,
        number: u64,
        before: u64,
        most_bytes: u64,
    ) -> Result<(), Refusal> {
        if !self.state.has_transactions() {
            return Err(Refusal::rewriting_without_transaction());
        }
        let after = self.content(&changes).await?;
        within(&after, most_bytes)?;
        let mark = Mark {
            number,
            before,
            fingerprint: after.fingerprint,
            changed: changes.len(),
        };
        let mut writes = vec![self.mark_form(number)?];
        writes.push(self.own_write(mark_key(number), Some(written(&mark)?)));
        for (index, key) in changes.keys().enumerate() {
            let there = self.state.get(&self.backends, key).await.map_err(unread)?;
            let (name, value) = replaced_keys(number, index);
            writes.push(self.own_write(name, Some(key.clone().into_bytes())));
            if let Some(there) = there {
                writes.push(self.own_write(value, Some(there.value)));
            }
        }
        writes.extend(self.writes(changes));
        self.state.apply(writes).await.map_err(unwritten)
    }

    /// Whether nothing was written since a migration.
    pub(crate) async fn is_untouched(&self, mark: &Mark) -> Result<bool, Refusal> {
        let now = self.content(&StateChanges::new()).await?;
        Ok(now.fingerprint == mark.fingerprint)
    }

    /// Restores what a migration replaced, in one transaction. The records then belong to this version, which need not be the one before it.
    pub(crate) async fn put_back(&self, mark: &Mark, number: u64) -> Result<(), Refusal> {
        let mut writes = vec![self.mark_form(number)?];
        writes.push(self.own_write(mark_key(mark.number), None));
        let mut restored = StateChanges::new();
        for index in 0..mark.changed {
            let (name_key, value_key) = replaced_keys(mark.number, index);
            let name = self.own_value(&name_key).await?.unwrap_or_default();
            let key = String::from_utf8(name).map_err(|_| damaged())?;
            restored.insert(key, self.own_value(&value_key).await?);
            writes.push(self.own_write(name_key, None));
            writes.push(self.own_write(value_key, None));
        }
        writes.extend(self.writes(restored));
        self.state.apply(writes).await.map_err(unwritten)
    }

    /// Drops what undoes migrations that no rollback crosses: that of this version, and those before it.
    pub(crate) async fn forget_up_to(&self, number: u64) -> Result<(), Refusal> {
        for mark in self.marks_above(0).await? {
            if mark.number > number {
                return Ok(());
            }
            let mut keys = Vec::new();
            for index in 0..mark.changed {
                let (name, value) = replaced_keys(mark.number, index);
                keys.extend([name, value]);
            }
            // Last: without the mark, the other keys are not found.
            keys.push(mark_key(mark.number));
            self.remove_own(keys).await?;
        }
        Ok(())
    }

    async fn content(&self, changes: &StateChanges) -> Result<Content, Refusal> {
        let read = content(self.state.as_ref(), &self.backends, changes).await;
        read.map_err(unread)
    }

    fn writes(&self, changes: StateChanges) -> impl Iterator<Item = StateWrite> + use<> {
        let space = self.backends.clone();
        changes.into_iter().map(move |(key, value)| StateWrite {
            space: space.clone(),
            key,
            value,
        })
    }

    fn mark_form(&self, version: u64) -> Result<StateWrite, Refusal> {
        let form = written(&Form { version })?;
        Ok(self.own_write(FORM.to_owned(), Some(form)))
    }

    fn own_write(&self, key: String, value: Option<Vec<u8>>) -> StateWrite {
        StateWrite {
            space: self.own.clone(),
            key,
            value,
        }
    }
}

/// Whether a record fits into the batch that is passed to the plugin at once (contract, `state-migration`).
fn fits(waiting: &[StateEntry], entry: &StateEntry) -> bool {
    let bytes = |entry: &StateEntry| entry.key.len() + entry.value.len();
    let together = waiting.iter().chain([entry]).map(bytes).sum::<usize>();
    waiting.is_empty()
        || (waiting.len() < MIGRATION_PAGE_ENTRIES && together <= MIGRATION_PAGE_BYTES)
}

async fn migrate_page(
    backend: &WasmBackend,
    from_version: &str,
    time: Duration,
    page: &[StateEntry],
    changes: &mut StateChanges,
) -> Result<(), Refusal> {
    let call = call_at_admission(Rpc::GetPluginInfo, time);
    let answer = backend.migrate(&call, from_version, page).await;
    changes.extend(answer.map_err(|error| Refusal::Migration(error.to_string()))?);
    Ok(())
}

fn within(after: &Content, most_bytes: u64) -> Result<(), Refusal> {
    if after.bytes <= most_bytes {
        return Ok(());
    }
    Err(Refusal::Migration(format!(
        "they would take {} bytes, and limits.stateBytes is {most_bytes}: raise it in the backend document",
        after.bytes
    )))
}

fn mark_key(number: u64) -> String {
    format!("{MARKS}{number:0DIGITS$}")
}

/// Keys of a replaced record: its name, and its value.
fn replaced_keys(number: u64, index: usize) -> (String, String) {
    let place = format!("{REPLACED}{number}/{index}/");
    (format!("{place}key"), format!("{place}value"))
}

fn unread(error: StateError) -> Refusal {
    Refusal::Migration(format!("the state store could not read them: {error}"))
}

fn unwritten(error: StateError) -> Refusal {
    Refusal::Migration(format!("the state store could not write them: {error}"))
}

fn damaged() -> Refusal {
    Refusal::Migration("what the host noted of an earlier migration cannot be read".to_owned())
}

fn parsed<T: DeserializeOwned>(value: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(value).map_err(|_| damaged())
}

fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|_| damaged())
}
