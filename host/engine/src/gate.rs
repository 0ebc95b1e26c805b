//! Limits the concurrent calls of one backend.
//!
//! A share is reserved for teardown and for calls that a node waits for: a burst of creations, or creations that hang in a slow remote system, must
//! not keep a pod from starting or stopping.
//!
//! With a busy backend, a call waits for a bounded time before it is rejected. Sidecars send bursts (the provisioner with 100 workers) of calls that
//! take milliseconds: a call that is rejected at once would be retried after its back-off, seconds later. Without a bound, calls would pile up behind
//! a backend that hangs, and hold the claims of their volumes for nothing.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmount_core::backend::Load;

/// How long a call waits for a place: several times the duration of the slowest burst that was measured, and less than the shortest deadline of the
/// sidecars (10 s).
const TIMEOUT: Duration = Duration::from_secs(5);
/// One in this many places is reserved, and the same part of the memory.
pub(crate) const RESERVED_ONE_IN: usize = 4;

/// Which calls may use the reserved share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Calls that create or read objects.
    Ordinary,
    /// Teardown calls, and those of a node.
    Reserved,
}

/// The places of one backend.
#[derive(Debug)]
pub(crate) struct Gate {
    limit: usize,
    timeout: Duration,
    all: Arc<Semaphore>,
    ordinary: Arc<Semaphore>,
    /// One clone for each call that waits.
    waiting: Arc<()>,
}

/// A place, released when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _ordinary: Option<OwnedSemaphorePermit>,
    _any: OwnedSemaphorePermit,
}

impl Gate {
    /// A gate with `limit` places; with one place there is nothing to reserve.
    pub(crate) fn new(limit: usize) -> Self {
        Self::with_timeout(limit, TIMEOUT)
    }

    fn with_timeout(limit: usize, timeout: Duration) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let reserved = if limit == 1 {
            0
        } else {
            (limit / RESERVED_ONE_IN).max(1)
        };
        Self {
            limit,
            timeout,
            all: Arc::new(Semaphore::new(limit)),
            ordinary: Arc::new(Semaphore::new(limit - reserved)),
            waiting: Arc::default(),
        }
    }

    /// Waits for a place; cheap when one is free. None: the maximum number of calls is running, and none ended in time.
    pub(crate) async fn enter(&self, share: Share) -> Option<Place> {
        let places = async {
            let ordinary = match share {
                Share::Reserved => None,
                Share::Ordinary => Some(Arc::clone(&self.ordinary).acquire_owned().await.ok()?),
            };
            let any = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Place {
                _ordinary: ordinary,
                _any: any,
            })
        };
        let _waiting = Arc::clone(&self.waiting);
        tokio::time::timeout(self.timeout, places).await.ok()?
    }

    /// How many places there are, how many are taken, and how many calls wait for one.
    pub(crate) fn load(&self) -> Load {
        Load {
            limit: self.limit,
            running: self.limit - self.all.available_permits(),
            waiting: Arc::strong_count(&self.waiting) - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT_TIMEOUT: Duration = Duration::from_millis(1);

    async fn enter(gate: &Gate, share: Share, times: usize) -> Vec<Place> {
        let mut places = Vec::new();
        for _ in 0..times {
            places.push(gate.enter(share).await.unwrap());
        }
        places
    }

    #[tokio::test]
    async fn creations_leave_the_reserved_share_free() {
        let gate = Gate::with_timeout(8, SHORT_TIMEOUT);
        let creations = enter(&gate, Share::Ordinary, 6).await;
        assert!(gate.enter(Share::Ordinary).await.is_none());
        let node_calls = enter(&gate, Share::Reserved, 2).await;
        assert!(gate.enter(Share::Reserved).await.is_none());
        drop((creations, node_calls));
    }

    #[tokio::test]
    async fn node_calls_may_use_every_place() {
        let gate = Gate::with_timeout(8, SHORT_TIMEOUT);
        let places = enter(&gate, Share::Reserved, 8).await;
        assert!(gate.enter(Share::Ordinary).await.is_none());
        drop(places);
        assert!(gate.enter(Share::Ordinary).await.is_some());
    }

    #[tokio::test]
    async fn a_gate_of_one_admits_calls_in_turn() {
        let gate = Gate::with_timeout(1, SHORT_TIMEOUT);
        let place = gate.enter(Share::Ordinary).await.unwrap();
        assert!(gate.enter(Share::Reserved).await.is_none());
        drop(place);
        assert!(gate.enter(Share::Reserved).await.is_some());
    }

    #[tokio::test]
    async fn a_call_that_finds_the_gate_full_waits_for_its_turn() {
        let gate = Arc::new(Gate::new(1));
        let place = gate.enter(Share::Ordinary).await.unwrap();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter(Share::Ordinary).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let load = |running, waiting| Load {
            limit: 1,
            running,
            waiting,
        };
        assert_eq!(gate.load(), load(1, 1));
        drop(place);
        assert!(waiting.await.unwrap());
        assert_eq!(gate.load(), load(0, 0));
    }
}
