//! The last statistics of each path, and the running queries: the answer for storage that hangs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wasmount_core::mounter::VolumeStats;
use wasmount_core::mutex::lock;

/// Deadline of storage for an answer. 2 s: kubelet gives NodeGetVolumeStats much more, local storage takes microseconds, and a slower server has a
/// problem that should be visible.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a cached answer is returned for storage that does not answer. 5 minutes: five of kubelet's rounds; older values would hide the problem.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Last answers and running queries, by path, which the journal assigns to one volume only.
#[derive(Debug, Default)]
pub(crate) struct StatsCache {
    kept: Mutex<HashMap<String, (Instant, VolumeStats)>>,
    /// The paths of the running queries, with their start times.
    pub(crate) running: Arc<Mutex<Vec<(String, Instant)>>>,
}

/// A running query of a path, until it is dropped.
pub(crate) struct RunningQuery {
    running: Arc<Mutex<Vec<(String, Instant)>>>,
    pub(crate) query: (String, Instant),
}

impl StatsCache {
    /// Whether a query of the storage at a path has missed its deadline.
    pub(crate) fn is_hung(&self, path: &str) -> bool {
        lock(&self.running)
            .iter()
            .any(|(queried, since)| queried == path && since.elapsed() >= ANSWER_WITHIN)
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

impl RunningQuery {
    pub(crate) fn begin(cache: &StatsCache, path: &str) -> Self {
        let query = (path.to_owned(), Instant::now());
        lock(&cache.running).push(query.clone());
        Self {
            running: cache.running.clone(),
            query,
        }
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        if let Some(own) = running.iter().position(|query| *query == self.query) {
            running.swap_remove(own);
        }
    }
}
