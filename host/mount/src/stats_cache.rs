//! The last statistics of each path, and the running queries: the answer for storage that hangs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wasmount_core::mounter::VolumeStats;

/// Deadline of storage for an answer. 2 s: kubelet gives NodeGetVolumeStats much more, local storage takes microseconds, and a slower server has a
/// problem that should be visible.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a cached answer is returned for storage that does not answer. 5 minutes: five of kubelet's rounds; older values would hide the problem.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Last answers and running queries, by path, which the journal assigns to one volume only.
#[derive(Debug, Default)]
pub(crate) struct StatsCache {
    kept: Mutex<HashMap<String, (Instant, VolumeStats)>>,
    /// The start times of the running queries of each path.
    pub(crate) asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
}

/// A running query of a path, until it is dropped.
pub(crate) struct Asking {
    pub(crate) asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    path: String,
    pub(crate) since: Instant,
}

impl StatsCache {
    /// Whether a query of the storage at a path has missed its deadline.
    pub(crate) fn is_hung(&self, path: &str) -> bool {
        lock(&self.asked)
            .get(path)
            .is_some_and(|asked| asked.iter().any(|since| since.elapsed() >= ANSWER_WITHIN))
    }

    /// Drops the last answer: the mount is gone.
    pub(crate) fn forget(&self, path: &str) {
        lock(&self.kept).remove(path);
    }

    pub(crate) fn keep(&self, path: String, stats: VolumeStats) {
        lock(&self.kept).insert(path, (Instant::now(), stats));
    }

    pub(crate) fn kept(&self, path: &str) -> Option<VolumeStats> {
        lock(&self.kept)
            .get(path)
            .filter(|(since, _)| since.elapsed() < KEPT_FOR)
            .map(|(_, stats)| *stats)
    }
}

impl Asking {
    pub(crate) fn begin(cache: &StatsCache, path: &str) -> Self {
        let (path, since) = (path.to_owned(), Instant::now());
        lock(&cache.asked)
            .entry(path.clone())
            .or_default()
            .push(since);
        Self {
            asked: cache.asked.clone(),
            path,
            since,
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut asked = lock(&self.asked);
        let Some(others) = asked.get_mut(&self.path) else {
            return;
        };
        if let Some(own) = others.iter().position(|since| *since == self.since) {
            others.swap_remove(own);
        }
        if others.is_empty() {
            asked.remove(&self.path);
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single step, so the data is consistent even after a panic of a thread.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
