//! One keyspace kept in memory: listed once, then watched.
//!
//! It contains a write of this process before the caller returns; writes of others follow with the watch. It decides no conflict: the API server
//! does.

use super::index::Index;
use super::record::{self, BackendRecord};
use crate::error::KubernetesError;
use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::state::Keyspace;

/// Records of one page of the first listing. 64: with values of the largest size that is 90 MiB of JSON, with small ones 10,000 records take 160
/// requests, less than two seconds.
const LIST_PAGE: u32 = 64;

/// A watched keyspace. The watch ends when this is dropped.
pub(super) struct Cache {
    index: Arc<Mutex<Index>>,
    listed: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

impl Cache {
    /// Starts to list and to watch. Call it in a runtime.
    pub(super) fn start(records: Api<BackendRecord>, space: &Keyspace) -> Self {
        let index = Arc::new(Mutex::new(Index::default()));
        let (told, listed) = watch::channel(false);
        let task = follow(records, space.clone(), Arc::clone(&index), told);
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

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
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
    let learned = match event {
        Event::Init => {
            index.begin_listing();
            Ok(())
        }
        Event::InitDone => {
            index.end_listing();
            Ok(())
        }
        Event::InitApply(record) | Event::Apply(record) => learn(space, index, record, false),
        Event::Delete(record) => learn(space, index, record, true),
    };
    if let Err(error) = learned {
        tracing::warn!(%error, "a record is not one of ours");
    }
}

fn learn(
    space: &Keyspace,
    index: &mut Index,
    record: BackendRecord,
    removed: bool,
) -> Result<(), KubernetesError> {
    let entry = record::entry(space, record)?;
    let value = (!removed).then_some(entry.value);
    index.learn(entry.key, entry.revision, value);
    Ok(())
}
