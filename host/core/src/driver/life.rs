//! Start and stop of a driver: recovery of the unfinished work of a killed host, standby, and an orderly shutdown.
//!
//! Recovery holds each volume's claims, so that all other volumes are served at once.

use super::Driver;
use crate::claims::{Claimed, volume_alone};
use crate::error::Error;
use crate::mutex::lock;
use crate::names::VolumeId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Volumes that are recovered at a time. 4: enough to keep one disk busy, and far below the mounter's budget of threads, which clients need at the
/// same time.
const RECOVERIES_AT_ONCE: usize = 4;
/// How long cancelled calls may take to end, after the grace period. 1 s: guests react within milliseconds.
const LETTING_GO: Duration = Duration::from_secs(1);

impl Driver {
    /// Claims every unsettled volume and returns their number; recovery continues in the background. To be called before serving.
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
                // The call that holds the claim finishes or undoes the volume's work itself.
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
            // The next start recovers volumes that were not begun.
            () = self.cancelled.cancelled() => return,
        };
        match self.mounter.recover(self.key(volume.clone())).await {
            Ok(()) => {
                lock(&self.counters.recoveries).succeeded += 1;
                tracing::info!(%volume, "recovered");
            }
            // The next stage or unstage of the volume finds the same state and returns the error to its client.
            Err(error) => {
                lock(&self.counters.recoveries).failed += 1;
                tracing::warn!(%volume, %error, "not recovered");
            }
        }
        drop(turn);
        drop(claimed);
    }

    /// Enters standby: another host serves the driver. Only identity and capabilities are answered, and Probe returns not ready, on which the
    /// sidecars wait without a limit (csi-lib-utils, `ProbeForever`).
    pub fn stand_by(&self) {
        self.work_while(|| false);
    }

    /// Serves while `term` returns true. Each call evaluates it: when a suspended process resumes, calls are waiting, and the process does not know
    /// yet that its turn is over.
    pub fn work_while(&self, term: impl Fn() -> bool + Send + Sync + 'static) {
        self.term.store(Some(Arc::new(Box::new(term))));
        self.terms.send_replace(());
    }

    /// Whether this process serves the driver.
    pub fn works(&self) -> bool {
        self.leads() != Some(false)
    }

    /// Rejects new changes, lets running ones end within `grace`, then cancels all calls. Returns how many changes had not ended by then: the next
    /// start recovers them.
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
