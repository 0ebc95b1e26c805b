//! How a driver begins and ends: recovery of what a killed host left half done, waiting for its turn, and an orderly stop.
//!
//! Recovery holds each volume's claims, so that all other volumes are served at once.

use super::Driver;
use crate::claims::{Claimed, volume_alone};
use crate::error::Error;
use crate::names::VolumeId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Volumes that are recovered at a time. 4: enough to keep one disk busy, and far below the mount room's budget of threads, which clients
/// need at the same time.
const RECOVERIES_AT_ONCE: usize = 4;
/// How long cancelled calls may take to let go, after the grace period. 1 s: guests notice within milliseconds.
const LETTING_GO: Duration = Duration::from_secs(1);

impl Driver {
    /// Claims every unsettled volume and returns how many there are; recovery goes on in the background. To be called before serving.
    pub async fn recover(self: &Arc<Self>) -> Result<usize, Error> {
        let unsettled = self.mounter.unsettled(self.config.name.clone()).await?;
        let turns = Arc::new(Semaphore::new(RECOVERIES_AT_ONCE));
        let mut begun = 0;
        for volume in unsettled {
            match self.claims.acquire(volume_alone(&volume)) {
                Ok(claimed) => {
                    begun += 1;
                    let work = Arc::clone(self).recover_volume(volume, claimed, Arc::clone(&turns));
                    self.tasks.spawn(work);
                }
                // The call that holds it brings the volume to a whole state itself.
                Err(_) => tracing::info!(%volume, "not recovered: a call is in progress"),
            }
        }
        Ok(begun)
    }

    async fn recover_volume(
        self: Arc<Self>,
        volume: VolumeId,
        claimed: Claimed,
        turns: Arc<Semaphore>,
    ) {
        let turn = tokio::select! {
            turn = turns.acquire() => turn,
            // What is not begun is left to the next start.
            () = self.cancelled.cancelled() => return,
        };
        match self.mounter.recover(self.key(volume.clone())).await {
            Ok(()) => tracing::info!(%volume, "recovered"),
            // The next stage or unstage of the volume meets the same state and says so to its client.
            Err(error) => tracing::warn!(%volume, %error, "not recovered"),
        }
        drop(turn);
        drop(claimed);
    }

    /// Leaves the work to another host: only who the driver is and what it can do is answered, and Probe says that it is not ready, for which
    /// the sidecars wait as long as it takes (csi-lib-utils, `ProbeForever`).
    pub fn stand_by(&self) {
        self.standing_by.store(true, Ordering::SeqCst);
    }

    /// Takes the work over for as long as `term` says. It is asked by each call: a process that was stopped for a while has calls waiting when
    /// it goes on, and nobody has told it yet that its turn is over.
    pub fn work_while(&self, term: impl Fn() -> bool + Send + Sync + 'static) {
        self.term.store(Some(Arc::new(Box::new(term))));
        self.standing_by.store(false, Ordering::SeqCst);
    }

    /// Whether this process does the work of the driver.
    pub fn works(&self) -> bool {
        !self.stands_by()
    }

    pub(super) fn stands_by(&self) -> bool {
        let is_over = || self.term.load().as_ref().is_some_and(|lasts| !lasts());
        self.standing_by.load(Ordering::SeqCst) || is_over()
    }

    /// Refuses new changes, lets running ones end within `grace`, then cancels all calls. Returns how many changes had not ended by then:
    /// the next start recovers them.
    pub async fn shutdown(&self, grace: Duration) -> usize {
        self.closing.store(true, Ordering::SeqCst);
        self.tasks.close();
        let unfinished = match timeout(grace, self.tasks.wait()).await {
            Ok(()) => 0,
            Err(_) => self.tasks.len(),
        };
        self.cancelled.cancel();
        if unfinished > 0 && timeout(LETTING_GO, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                unfinished,
                "calls did not end in time: the next start recovers them"
            );
        }
        unfinished
    }
}
