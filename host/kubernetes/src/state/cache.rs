//! One keyspace kept in memory: listed once, then watched.
//!
//! It contains a write of this process before the caller returns; writes of others follow with the watch. It decides no conflict: the API server
//! does.

use super::record::{self, BackendRecord};
use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::mutex::lock;
use wasmount_core::state::{
    Keyspace, STATE_SCAN_BYTES, STATE_SCAN_ENTRIES, StateEntry, record_bytes,
};

/// Records of one page of the first listing. 64: with values of the largest size that is 90 MiB of JSON, with small ones 10,000 records take 160
/// requests, less than two seconds.
const LIST_PAGE: u32 = 64;

/// How many removed keys are remembered, so that a late notification does not restore them. 4096: far more than are removed while one answer is under
/// way.
const REMOVED_KEYS: usize = 4096;

/// A watched keyspace. The watch ends when this is dropped.
pub(super) struct Cache {
    index: Arc<Mutex<Index>>,
    listed: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

/// The records of one keyspace in key order, as they were last observed: at most `limits.stateBytes` of values. It has no requests and no tasks.
#[derive(Default)]
pub(super) struct Index {
    slots: BTreeMap<String, Slot>,
    /// Of all existing records, as [`record_bytes`] counts.
    bytes: u64,
    removed: VecDeque<String>,
    listing: u64,
}

struct Slot {
    revision: u64,
    /// None: removed.
    value: Option<Vec<u8>>,
    /// The last listing during or after which the key was reported.
    listing: u64,
}

impl Cache {
    /// Starts to list and to watch. Call it in a runtime.
    pub(super) fn start(records: Api<BackendRecord>, space: &Keyspace) -> Self {
        let index = Arc::new(Mutex::new(Index::default()));
        let (sender, listed) = watch::channel(false);
        let task = follow(records, space.clone(), Arc::clone(&index), sender);
        Self {
            index,
            listed,
            _watch: AbortOnDropHandle::new(tokio::spawn(task)),
        }
    }

    /// Returns when all records that existed at the start have been listed.
    pub(super) async fn listed(&self) {
        // The sender lives as long as the task, which does not end until it is aborted.
        let _ = self.listed.clone().wait_for(|listed| *listed).await;
    }

    /// The records. The lock is held for as long as a page takes to copy.
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }
}

impl Index {
    /// Records that a key was observed with a value, or without one, at a revision.
    pub(super) fn learn(&mut self, key: String, revision: u64, value: Option<Vec<u8>>) {
        let listing = self.listing;
        let removed = value.is_none();
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.listing = listing;
            // Our own removals have the revision of the removed record.
            if revision < slot.revision || (revision == slot.revision && !removed) {
                return;
            }
            self.bytes = self.bytes.saturating_sub(weight(&key, slot));
        }
        if removed {
            self.remember_removed(key.clone());
        }
        let slot = Slot {
            revision,
            value,
            listing,
        };
        self.bytes = self.bytes.saturating_add(weight(&key, &slot));
        self.slots.insert(key, slot);
    }

    /// A listing starts: all existing records are reported from now on.
    pub(super) fn begin_listing(&mut self) {
        self.listing = self.listing.wrapping_add(1);
    }

    /// The listing is complete: records that it did not report no longer exist.
    pub(super) fn end_listing(&mut self) {
        let listing = self.listing;
        self.slots.retain(|_, slot| slot.listing == listing);
        self.bytes = self.slots.iter().map(|(key, slot)| weight(key, slot)).sum();
    }

    /// The size of all existing records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A page, in key order.
    pub(super) fn page(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<StateEntry> {
        let limit = usize::try_from(limit.min(STATE_SCAN_ENTRIES)).unwrap_or(usize::MAX);
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut bytes = 0;
        self.slots
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter_map(|(key, slot)| Some((key, slot.revision, slot.value.as_ref()?)))
            .take(limit)
            .take_while(|(key, _, value)| {
                let fits = bytes < STATE_SCAN_BYTES;
                bytes += key.len() + value.len();
                fits
            })
            .map(|(key, revision, value)| StateEntry {
                key: key.clone(),
                value: value.clone(),
                revision,
            })
            .collect()
    }

    fn remember_removed(&mut self, key: String) {
        self.removed.push_back(key);
        if self.removed.len() > REMOVED_KEYS
            && let Some(oldest) = self.removed.pop_front()
            && self
                .slots
                .get(&oldest)
                .is_some_and(|slot| slot.value.is_none())
        {
            self.slots.remove(&oldest);
        }
    }
}

fn weight(key: &str, slot: &Slot) -> u64 {
    slot.value
        .as_ref()
        .map_or(0, |value| record_bytes(key, value.len()))
}

async fn follow(
    records: Api<BackendRecord>,
    space: Keyspace,
    index: Arc<Mutex<Index>>,
    listed: watch::Sender<bool>,
) {
    let config = watcher::Config::default()
        .labels(&record::selector(&space))
        .page_size(LIST_PAGE);
    let events = watcher(records, config).default_backoff();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let done = matches!(event, Event::InitDone);
                take(&space, &mut lock(&index), event);
                if done {
                    listed.send_replace(true);
                }
            }
            // It continues from where it was, or lists again.
            Err(error) => {
                tracing::warn!(driver = %space.driver, %error, "watch of records lost: retrying");
            }
        }
    }
}

fn take(space: &Keyspace, index: &mut Index, event: Event<BackendRecord>) {
    let (record, removed) = match event {
        Event::Init => return index.begin_listing(),
        Event::InitDone => return index.end_listing(),
        Event::InitApply(record) | Event::Apply(record) => (record, false),
        Event::Delete(record) => (record, true),
    };
    match record::entry(space, record) {
        Ok(entry) => {
            let value = (!removed).then_some(entry.value);
            index.learn(entry.key, entry.revision, value);
        }
        Err(error) => tracing::warn!(%error, "a record is not one of ours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(index: &mut Index, key: &str, revision: u64, value: Option<&str>) {
        index.learn(key.to_owned(), revision, value.map(Into::into));
    }

    fn seen(index: &Index) -> Vec<(String, u64)> {
        let page = index.page("", None, u32::MAX);
        page.into_iter().map(|it| (it.key, it.revision)).collect()
    }

    #[test]
    fn a_late_event_does_not_hide_a_newer_one() {
        let mut index = Index::default();
        apply(&mut index, "k", 5, Some("new"));
        apply(&mut index, "k", 4, Some("old"));
        apply(&mut index, "k", 4, None);
        assert_eq!(seen(&index), [("k".to_owned(), 5)]);
        // Removed by this process, at the revision that it had; the watch reports the removal afterwards.
        apply(&mut index, "k", 5, None);
        apply(&mut index, "k", 5, Some("new"));
        assert_eq!((seen(&index), index.bytes()), (vec![], 0));
        apply(&mut index, "k", 7, Some("again"));
        apply(&mut index, "k", 6, None);
        assert_eq!(seen(&index), [("k".to_owned(), 7)]);
    }

    #[test]
    fn a_listing_removes_records_it_lacks_except_newer_writes() {
        let mut index = Index::default();
        apply(&mut index, "gone", 1, Some(""));
        apply(&mut index, "stays", 2, Some(""));
        apply(&mut index, "newer", 9, Some(""));
        index.begin_listing();
        apply(&mut index, "written", 8, Some(""));
        apply(&mut index, "stays", 2, Some(""));
        apply(&mut index, "newer", 3, Some(""));
        apply(&mut index, "removed", 4, None);
        apply(&mut index, "removed", 4, Some(""));
        index.end_listing();
        let expected = [("newer", 9), ("stays", 2), ("written", 8)];
        assert_eq!(seen(&index), expected.map(|(k, r)| (k.to_owned(), r)));
        let weights = expected.map(|(key, _)| record_bytes(key, 0));
        assert_eq!(index.bytes(), weights.iter().sum::<u64>());
    }

    #[test]
    fn removed_keys_are_forgotten_in_time_and_none_that_is_back() {
        let mut index = Index::default();
        apply(&mut index, "back", 1, None);
        apply(&mut index, "back", 2, Some(""));
        for i in 0..2 * REMOVED_KEYS {
            apply(&mut index, &format!("k{i}"), 1, None);
        }
        assert_eq!(index.slots.len(), REMOVED_KEYS + 1);
        assert_eq!(seen(&index), [("back".to_owned(), 2)]);
    }

    #[test]
    fn a_page_of_large_values_stays_small() {
        let mut index = Index::default();
        for i in 0..5 {
            index.learn(i.to_string(), 1, Some(vec![0; 1 << 20]));
        }
        assert_eq!(index.page("", None, 10).len(), 2);
        index.learn("5".to_owned(), 1, Some(vec![0; 2 * STATE_SCAN_BYTES]));
        assert_eq!(index.page("5", None, 10).len(), 1, "at least one");
    }

    proptest! {
        /// In whatever order changes are reported, the last one wins.
        #[test]
        fn the_order_of_events_does_not_matter(
            changes in proptest::collection::vec((0..4_u8, any::<bool>()), 1..40).prop_flat_map(|changes| {
                let numbered: Vec<_> = changes.into_iter().zip(1_u64..).collect();
                (Just(numbered.clone()), Just(numbered).prop_shuffle())
            })
        ) {
            let (in_order, shuffled) = changes;
            let index_of = |changes: &[((u8, bool), u64)]| {
                let mut index = Index::default();
                for ((key, there), revision) in changes {
                    apply(&mut index, &key.to_string(), *revision, there.then_some("v"));
                }
                index
            };
            let (one, other) = (index_of(&in_order), index_of(&shuffled));
            prop_assert_eq!(seen(&one), seen(&other));
            prop_assert_eq!(one.bytes(), other.bytes());
        }
    }
}
