//! Writes that are visible and not yet durable, and the revision counter. Separate from the database so that batches, their settling and their limits
//! can be tested without a file.
//!
//! redb has its own writes that are visible before they are durable, but it drops them after an I/O error. A write that a reader has seen must
//! survive a full disk.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use wasmount_core::state::{Keyspace, record_bytes};

/// Total weight of waiting writes above which a writer waits for a commit, in bytes: four values of the largest size.
pub(crate) const PENDING_BYTES: usize = 4 << 20;
/// The weight of a write besides its key and value, in bytes: about what its entry takes in memory.
const WRITE_OVERHEAD_BYTES: usize = 128;
/// How far revisions jump at each start. A revision of a write that was seen but lost with the process must not be reused for other content; between
/// two commits there are at most `2 * PENDING_BYTES / WRITE_OVERHEAD_BYTES` = 65,536 of them.
pub(crate) const REVISIONS_AHEAD: u64 = 1 << 20;

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    /// The revision of this change; unique.
    pub(crate) revision: u64,
    /// None: removed.
    pub(crate) value: Option<Arc<[u8]>>,
}

type Writes = HashMap<Keyspace, BTreeMap<String, Write>>;

/// All writes that wait for a commit.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    writes: Writes,
    weight: usize,
    last_revision: u64,
    failing: bool,
}

/// The writes of one commit.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The last change of each key.
    pub(crate) writes: Writes,
    /// The counter, so that revisions grow across restarts.
    pub(crate) last_revision: u64,
    weight: usize,
}

impl Pending {
    /// Nothing waits; revisions continue above those of earlier processes.
    pub(crate) fn after(last_durable_revision: u64) -> Self {
        Self {
            last_revision: last_durable_revision.saturating_add(REVISIONS_AHEAD),
            ..Self::default()
        }
    }

    /// The waiting write of a key, if there is one.
    pub(crate) fn get(&self, space: &Keyspace, key: &str) -> Option<&Write> {
        self.writes.get(space)?.get(key)
    }

    /// Waiting writes of a range, in key order.
    pub(crate) fn range(
        &self,
        space: &Keyspace,
        from: Bound<&str>,
        prefix: &str,
    ) -> Vec<(String, Write)> {
        let Some(writes) = self.writes.get(space) else {
            return Vec::new();
        };
        writes
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, write)| (key.clone(), write.clone()))
            .collect()
    }

    /// The size of the waiting records of a keyspace.
    pub(crate) fn size(&self, space: &Keyspace) -> u64 {
        let writes = self.writes.get(space).into_iter().flatten();
        let values = writes.filter_map(|(key, write)| Some((key, write.value.as_ref()?)));
        values
            .map(|(key, value)| record_bytes(key, value.len()))
            .sum()
    }

    /// Adds a change and gives it a revision.
    pub(crate) fn write(&mut self, space: &Keyspace, key: &str, value: Option<Arc<[u8]>>) -> u64 {
        self.last_revision += 1;
        self.weight +=
            WRITE_OVERHEAD_BYTES + key.len() + value.as_ref().map_or(0, |value| value.len());
        let write = Write {
            revision: self.last_revision,
            value,
        };
        self.writes
            .entry(space.clone())
            .or_default()
            .insert(key.to_owned(), write);
        self.last_revision
    }

    /// Whether a write of this keyspace waits.
    pub(crate) fn has_any(&self, space: &Keyspace) -> bool {
        self.writes.contains_key(space)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether a new value has to wait for a commit: too much waits already, or the last commit failed and would fail again.
    pub(crate) fn is_full(&self) -> bool {
        self.failing || self.weight >= PENDING_BYTES
    }

    /// All waiting writes. They stay visible here until [`Pending::settle`].
    pub(crate) fn batch(&mut self) -> Batch {
        Batch {
            writes: self.writes.clone(),
            last_revision: self.last_revision,
            weight: std::mem::take(&mut self.weight),
        }
    }

    /// The batch is durable: drops it, except for keys that have changed since.
    pub(crate) fn settle(&mut self, batch: &Batch) {
        self.failing = false;
        for (space, settled) in &batch.writes {
            let Some(writes) = self.writes.get_mut(space) else {
                continue;
            };
            writes.retain(|key, write| settled.get(key) != Some(write));
            if writes.is_empty() {
                self.writes.remove(space);
            }
        }
    }

    /// The batch is not durable: its writes keep waiting.
    pub(crate) fn keep(&mut self, batch: &Batch) {
        self.failing = true;
        self.weight += batch.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_store_conformance::space;

    fn value(text: &str) -> Option<Arc<[u8]>> {
        Some(Arc::from(text.as_bytes()))
    }

    #[test]
    fn a_settled_write_is_forgotten() {
        let mut pending = Pending::default();
        pending.write(&space("a"), "k", value("1"));
        let batch = pending.batch();
        pending.settle(&batch);
        assert!(pending.is_empty());
    }

    #[test]
    fn a_key_that_changed_during_the_commit_waits_on() {
        let mut pending = Pending::default();
        pending.write(&space("a"), "k", value("1"));
        let batch = pending.batch();
        // The same value again is another change: it has another revision.
        let second = pending.write(&space("a"), "k", value("1"));
        pending.settle(&batch);
        assert_eq!(
            pending.get(&space("a"), "k"),
            Some(&Write {
                revision: second,
                value: value("1")
            })
        );
    }

    #[test]
    fn a_batch_that_failed_waits_on_and_makes_writers_wait() {
        let mut pending = Pending::default();
        let revision = pending.write(&space("a"), "k", value("1"));
        let batch = pending.batch();
        pending.keep(&batch);
        assert!(pending.is_full());
        let again = pending.batch();
        assert_eq!(again.writes[&space("a")]["k"].revision, revision);
        pending.settle(&again);
        assert!(!pending.is_full());
    }

    #[test]
    fn the_size_of_a_space_counts_unsettled_writes() {
        let mut pending = Pending::default();
        pending.write(&space("a"), "k", value("1"));
        pending.write(&space("a"), "gone", None);
        let batch = pending.batch();
        pending.write(&space("a"), "later", value("22"));
        let (first, later) = (record_bytes("k", 1), record_bytes("later", 2));
        assert_eq!(pending.size(&space("a")), first + later);
        assert_eq!(pending.size(&space("b")), 0);
        pending.settle(&batch);
        assert_eq!(pending.size(&space("a")), later);
    }

    #[test]
    fn writers_wait_once_too_much_waits() {
        let mut pending = Pending::default();
        let large: Arc<[u8]> = Arc::from(vec![0; PENDING_BYTES / 2].as_slice());
        pending.write(&space("a"), "k", Some(Arc::clone(&large)));
        assert!(!pending.is_full());
        pending.write(&space("a"), "k", Some(large));
        assert!(pending.is_full(), "each write weighs, also of one key");
    }

    #[test]
    fn revisions_jump_at_a_start_further_than_can_have_been_lost() {
        let mut pending = Pending::after(7);
        assert_eq!(
            pending.write(&space("a"), "k", None),
            7 + REVISIONS_AHEAD + 1
        );
        let lost = 2 * PENDING_BYTES / WRITE_OVERHEAD_BYTES;
        assert!(REVISIONS_AHEAD > u64::try_from(lost).unwrap());
    }
}
