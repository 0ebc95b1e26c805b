//! When calls wait, and when new work is refused. Apart from the swap because it stops calls, which a swap never does: a change of the
//! plugin's records must have no call beside it, and a backend that is to go takes nothing new.

use super::Driver;
use super::calls::RunningCall;
use crate::error::Error;
use crate::rpc::Rpc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Calls that may wait at a time. 1,024: five provisioners with all their workers; more would only come back later all at once.
const MOST_WAITING: usize = 1024;

/// How many hold the calls of a driver, and how many calls wait for them.
#[derive(Default)]
pub(super) struct Holds {
    held: watch::Sender<usize>,
    waiting: AtomicUsize,
}

/// Calls that ask the plugin wait for as long as this lives; those that kernel and journal answer go on.
pub struct Held {
    driver: Arc<Driver>,
}

/// A place among those that wait.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Holds {
    pub(super) fn is_held(&self) -> bool {
        *self.held.borrow() > 0
    }

    /// Returns when nobody holds the calls.
    pub(super) async fn released(&self, until: Instant) -> Result<(), Error> {
        let place = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            return Err(Error::Held);
        }
        let mut held = self.held.subscribe();
        let released = timeout_at(until, held.wait_for(|holders| *holders == 0)).await;
        drop(place);
        released.map(drop).map_err(|_| Error::Held)
    }
}

impl Held {
    /// Returns when no call asks any version of the plugin.
    pub async fn drained(&self) {
        self.driver.idle().await;
    }

    /// How many still do.
    pub fn calls_in_flight(&self) -> usize {
        self.driver.calls_in_flight()
    }

    /// Which, the longest first.
    pub fn running_calls(&self) -> Vec<RunningCall> {
        self.driver.running_calls()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.driver.holds.held.send_modify(|holders| *holders -= 1);
    }
}

impl Driver {
    /// Has calls wait, each until its own time is up; running ones go on.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.holds.held.send_modify(|holders| *holders += 1);
        // Pairs with the one of a call that was counted and then looks whether it may go on.
        fence(Ordering::SeqCst);
        Held {
            driver: Arc::clone(self),
        }
    }

    /// Returns when each version that may have calls had none for a moment.
    pub async fn idle(&self) {
        for version in self.all_versions() {
            version.ended().await;
        }
    }

    /// Refuses whatever would make or use more: creations, attachments, stages and publishes. What ends work, and what asks, goes on.
    pub fn stop_new_work(&self, reason: String) {
        self.refusing.store(Some(Arc::new(reason)));
    }

    /// Takes it again.
    pub fn take_new_work(&self) {
        self.refusing.store(None);
    }

    /// Why no new work is taken; none: it is.
    pub fn new_work_refused(&self) -> Option<String> {
        let reason = self.refusing.load();
        reason.as_ref().map(|reason| reason.as_ref().clone())
    }

    pub(super) fn may_begin(&self, rpc: Rpc) -> Result<(), Error> {
        match self.new_work_refused() {
            Some(reason) if begins_work(rpc) => Err(Error::NoNewWork { reason }),
            _ => Ok(()),
        }
    }
}

fn begins_work(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::CreateVolume
            | Rpc::CreateSnapshot
            | Rpc::CreateVolumeGroupSnapshot
            | Rpc::ControllerPublishVolume
            | Rpc::NodeStageVolume
            | Rpc::NodePublishVolume
    )
}
