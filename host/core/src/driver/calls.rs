//! Calls that ask one version of a plugin: how many, which, and for how long.

use crate::rpc::Rpc;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Those of one version.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    tracker: TaskTracker,
    begun: Arc<Mutex<Begun>>,
}

/// A call that asks a plugin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningCall {
    /// Which.
    pub rpc: Rpc,
    /// For how long.
    pub since: Duration,
}

/// A call is counted for as long as this lives.
pub(super) struct Ticket {
    begun: Arc<Mutex<Begun>>,
    number: u64,
    _counted: TaskTrackerToken,
}

#[derive(Debug, Default)]
struct Begun {
    next: u64,
    calls: BTreeMap<u64, (Rpc, Instant)>,
}

impl Calls {
    pub(super) fn new() -> Self {
        let tracker = TaskTracker::new();
        // Tokens are still given; it only lets whoever waits for the last one be woken.
        tracker.close();
        Self {
            tracker,
            begun: Arc::default(),
        }
    }

    pub(super) fn begin(&self, rpc: Rpc) -> Ticket {
        let counted = self.tracker.token();
        let mut begun = lock(&self.begun);
        let number = begun.next;
        begun.next += 1;
        begun.calls.insert(number, (rpc, Instant::now()));
        drop(begun);
        Ticket {
            begun: Arc::clone(&self.begun),
            number,
            _counted: counted,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Returns when the last of them has ended.
    pub(super) async fn ended(&self) {
        self.tracker.wait().await;
    }

    pub(super) fn running(&self) -> Vec<RunningCall> {
        let begun = lock(&self.begun);
        let running = begun.calls.values().map(|(rpc, at)| RunningCall {
            rpc: *rpc,
            since: at.elapsed(),
        });
        running.collect()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.begun).calls.remove(&self.number);
    }
}

fn lock(begun: &Mutex<Begun>) -> MutexGuard<'_, Begun> {
    // Each change is one step, so what a panicking thread leaves is whole.
    begun.lock().unwrap_or_else(PoisonError::into_inner)
}
