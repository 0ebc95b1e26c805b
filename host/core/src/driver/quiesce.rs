//! When calls wait, and when new work is refused. A change of the plugin's records must have no call beside it, and a backend that is to go takes
//! nothing new.

use super::Driver;
use super::calls::RunningCall;
use crate::error::Error;
use crate::rpc::Rpc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// Calls that may wait at a time. 1,024: five provisioners with all their workers; more would only come back later all at once.
const MOST_WAITING: usize = 1024;
/// What clients of a driver are told that is to be taken away.
const LEAVING: &str = "the backend is being taken away";

/// How many hold the calls of a driver, and how many calls wait for them.
pub(super) struct Holds {
    held: watch::Sender<usize>,
    places: Semaphore,
}

/// Calls that ask the plugin wait for as long as this lives; those that kernel and journal answer go on.
pub struct Held {
    driver: Arc<Driver>,
}

/// The driver takes no new work for as long as one of these lives, whatever else is said of it.
pub struct Leaving {
    driver: Arc<Driver>,
}

impl Default for Holds {
    fn default() -> Self {
        Self {
            held: watch::Sender::default(),
            places: Semaphore::new(MOST_WAITING),
        }
    }
}

impl Holds {
    pub(super) fn is_held(&self) -> bool {
        *self.held.borrow() > 0
    }

    /// Returns when nobody holds the calls.
    pub(super) async fn released(&self, until: Instant) -> Result<(), Error> {
        let _place = self.places.try_acquire().map_err(|_| Error::Held)?;
        let mut held = self.held.subscribe();
        let released = timeout_at(until, held.wait_for(|holders| *holders == 0)).await;
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

impl Drop for Leaving {
    fn drop(&mut self) {
        self.driver.leaving.fetch_sub(1, Ordering::SeqCst);
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

    /// Why whatever would make or use more is refused: creations, attachments, stages and publishes; none: it is not. What ends work, and what
    /// asks, goes on.
    pub fn set_drained(&self, reason: Option<String>) {
        self.drained.store(reason.map(Arc::new));
    }

    /// The same for a driver that is to be taken away, beside what [`Driver::set_drained`] says: neither lifts the other.
    pub fn leave(self: &Arc<Self>) -> Leaving {
        self.leaving.fetch_add(1, Ordering::SeqCst);
        Leaving {
            driver: Arc::clone(self),
        }
    }

    /// Whether it is to be taken away.
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

    /// The records of the driver are lost, for a reason: nothing is created, since its name may be one of theirs, and nothing is deleted, since
    /// the plugin would take for gone what is there. For as long as the driver lives.
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
            | Rpc::NodeStageVolume
            | Rpc::NodePublishVolume
    )
}
