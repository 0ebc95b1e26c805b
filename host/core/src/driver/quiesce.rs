//! When calls wait, and when new work is rejected. No call may run during a change of the plugin's records, and a backend that is to be removed takes
//! no new work.

use super::Driver;
use crate::error::Error;
use crate::rpc::Rpc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// Calls that may wait at a time. 1,024: five provisioners with all their workers; more would only retry later all at once.
const MOST_WAITING: usize = 1024;
/// The message to clients of a driver that is to be removed.
const LEAVING: &str = "the backend is being deleted";

/// How many guards quiesce a driver, and how many calls wait for them.
pub(super) struct Holds {
    guards: watch::Sender<usize>,
    places: Semaphore,
}

/// Calls that use the plugin wait during the lifetime of this guard; calls that kernel and journal answer continue.
pub struct QuiesceGuard {
    driver: Arc<Driver>,
}

/// The driver takes no new work during the lifetime of this guard, independent of other settings.
pub struct Leaving {
    driver: Arc<Driver>,
}

impl Default for Holds {
    fn default() -> Self {
        Self {
            guards: watch::Sender::default(),
            places: Semaphore::new(MOST_WAITING),
        }
    }
}

impl Holds {
    pub(super) fn is_quiesced(&self) -> bool {
        *self.guards.borrow() > 0
    }

    /// Returns when no guard holds the calls.
    pub(super) async fn released(&self, until: Instant) -> Result<(), Error> {
        let _place = self.places.try_acquire().map_err(|_| Error::Quiesced)?;
        let mut guards = self.guards.subscribe();
        let released = timeout_at(until, guards.wait_for(|count| *count == 0)).await;
        released.map(drop).map_err(|_| Error::Quiesced)
    }
}

impl Drop for QuiesceGuard {
    fn drop(&mut self) {
        self.driver.holds.guards.send_modify(|count| *count -= 1);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.driver.leaving.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Driver {
    /// Makes calls wait, each until its own deadline; running ones continue.
    pub fn hold(self: &Arc<Self>) -> QuiesceGuard {
        self.holds.guards.send_modify(|count| *count += 1);
        // Pairs with the fence of a call, which is counted first and then checks whether it may continue.
        fence(Ordering::SeqCst);
        QuiesceGuard {
            driver: Arc::clone(self),
        }
    }

    /// Returns when each version that may have calls had a moment without any.
    pub async fn idle(&self) {
        for calls in self.all_calls() {
            calls.ended().await;
        }
    }

    /// Sets why calls that create or use more are rejected: creations, attachments, registrations of nodes, stages and publishes; none: they are served.
    /// Teardown and reads continue.
    pub fn set_drained(&self, reason: Option<String>) {
        self.drained.store(reason.map(Arc::new));
    }

    /// The same for a driver that is to be removed, independent of [`Driver::set_drained`]: neither lifts the other.
    pub fn leave(self: &Arc<Self>) -> Leaving {
        self.leaving.fetch_add(1, Ordering::SeqCst);
        Leaving {
            driver: Arc::clone(self),
        }
    }

    /// Whether the driver is to be removed.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst) > 0
    }

    fn new_work_refused(&self) -> Option<String> {
        if self.is_leaving() {
            return Some(LEAVING.to_owned());
        }
        let reason = self.drained.load();
        reason.as_ref().map(|reason| reason.as_ref().clone())
    }

    /// Marks the driver's records as lost, with a reason. Nothing is created, since its name may be one of the lost records', and nothing is deleted,
    /// since the plugin would take an existing volume for deleted. In force for the driver's lifetime.
    pub fn lose_records(&self, reason: String) {
        self.lost_records.get_or_init(|| reason);
    }

    pub(super) fn may_begin(&self, rpc: Rpc) -> Result<(), Error> {
        let lost = self.lost_records.get().filter(|_| rests_on_records(rpc));
        let refused = || self.new_work_refused().filter(|_| begins_work(rpc));
        match lost.cloned().or_else(refused) {
            Some(reason) => Err(Error::NoNewWork { reason }),
            None => Ok(()),
        }
    }
}

fn rests_on_records(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::CreateVolume
            | Rpc::DeleteVolume
            | Rpc::CreateSnapshot
            | Rpc::DeleteSnapshot
            | Rpc::CreateVolumeGroupSnapshot
            | Rpc::DeleteVolumeGroupSnapshot
    )
}

fn begins_work(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::CreateVolume
            | Rpc::CreateSnapshot
            | Rpc::CreateVolumeGroupSnapshot
            | Rpc::ControllerPublishVolume
            | Rpc::RegisterNode
            | Rpc::NodeStageVolume
            | Rpc::NodePublishVolume
    )
}
