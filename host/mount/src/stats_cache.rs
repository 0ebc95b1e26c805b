//! The last statistics of each path, and which paths are being asked: storage that hangs is answered for from here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wasmount_core::mounter::VolumeStats;

/// How long storage may take to answer. 2 s: kubelet gives NodeGetVolumeStats much more, local storage takes microseconds, and a server that
/// takes longer has a problem that should be seen.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long an answer stands in for one that does not come. 5 minutes: five of kubelet's rounds; older figures would hide the problem.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Last answers, and what is being asked. By path, which the journal gives to one volume only.
#[derive(Debug, Default)]
pub(crate) struct StatsCache {
    kept: Mutex<HashMap<String, (Instant, VolumeStats)>>,
    /// Since when, of each that asks.
    pub(crate) asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
}

/// Notes that a path is being asked, as long as it lives.
pub(crate) struct Asking {
    pub(crate) asked: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    path: String,
    pub(crate) since: Instant,
}

impl StatsCache {
    /// Whether storage at a path has been asked and has not answered in time.
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
    // Each change is one step, so what a panicking thread leaves is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
