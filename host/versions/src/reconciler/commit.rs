//! Activates a version. The order of the steps decides what a kill leaves:
//!
//! 1. the component is on disk, and calls that must end have ended (see `quiesce`);
//! 2. the mounter has the grants, and the records are as the version needs them;
//! 3. the history names the version as serving: **from here on a restart finds the new one**, before it the old one;
//! 4. calls go to it.
//!
//! A step that fails rolls back those before it, and the running version continues.

use super::candidate::{CandidateKey, Coming, Found, Needs, Prepared, QuiesceReason, Ready};
use super::{ReconcilerParts, Shared};
use crate::disk::Disk;
use crate::history::{History, NewVersion};
use crate::pools::pools_in_doubt;
use crate::record::{HeldBy, Hold};
use crate::refusal::Refusal;
use crate::status::KeeperEvent;
use crate::trial::Trial;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::time::Instant;
use wasmount_core::backend::Backend;
use wasmount_core::document::{Grants, VersionPolicy};
use wasmount_core::driver::{Role, ServingPolicy, VersionFault};
use wasmount_engine::WasmBackend;

/// Faults that the reconciler may have ahead of it. 1,024: more than any sensible number that takes a version back.
const FAULTS: usize = 1024;

/// A version that serves.
pub(super) struct Running {
    pub(super) number: u64,
    pub(super) candidate: CandidateKey,
    pub(super) backend: Arc<WasmBackend>,
    pub(super) grants: Grants,
    pub(super) faults: mpsc::Receiver<VersionFault>,
    /// None: it is not taken back.
    pub(super) trial: Option<Trial>,
    pub(super) warnings: Vec<String>,
    /// Doubts about its pools, which are found later.
    pub(super) doubts: Arc<Mutex<Vec<String>>>,
}

/// What it takes.
pub(super) struct Commit<'a> {
    pub(super) parts: &'a Arc<ReconcilerParts>,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) disk: &'a Arc<Disk>,
    pub(super) history: &'a mut History,
    /// What serves now.
    pub(super) running: Option<&'a Running>,
    pub(super) policy: &'a VersionPolicy,
}

impl Commit<'_> {
    /// What has to happen first.
    pub(super) async fn needs(&self, ready: &Ready, coming: &Coming) -> Result<Needs, Refusal> {
        let step = self.records_step(ready, coming).await?;
        let grants = &ready.desired.document.grants;
        let regrants = self.running.is_some_and(|it| it.grants != *grants);
        let quiet = match coming {
            _ if step.is_some() => Some(QuiesceReason::Records(self.policy.drain)),
            Coming::Back(_) if regrants => Some(QuiesceReason::GrantsOnWayBack),
            _ if regrants => Some(QuiesceReason::Grants),
            _ => None,
        };
        Ok(Needs { step, quiet })
    }

    /// Puts it to use. How long the disk took to keep that.
    pub(super) async fn activate(
        self,
        ready: Ready,
        coming: Coming,
        prepared: Prepared,
    ) -> Result<(Running, Duration), Refusal> {
        let grants = ready.desired.document.grants.clone();
        let Prepared { step, held, .. } = prepared;
        let migrates = step.is_some();
        let (mut history, number, on_trial) = self.next(&ready, coming);
        history.prune(self.policy.keep);
        self.grant(&grants).await?;
        let found = match step {
            Some(step) => self.change_records(step, &ready, &history, number).await,
            None => Ok(Found::History),
        };
        let found = match found {
            Ok(found) => self
                .record_owner_version(&ready.backend.label().version)
                .await
                .map(|()| found),
            Err(refusal) => Err(refusal),
        };
        let found = match found {
            Ok(found) => found,
            Err(refusal) => return Err(self.grants_taken_back(refusal).await),
        };
        let mut writing = Duration::ZERO;
        if history != *self.history {
            match self.disk.write(&history).await {
                Ok(took) => writing = took,
                Err(refusal) if found == Found::History => {
                    return Err(self.grants_taken_back(refusal).await);
                }
                // The records are its own by now, and a restart will see that.
                Err(refusal) => {
                    tracing::error!(driver = %self.parts.driver.name(), error = %refusal, "activation of the version could not be recorded");
                }
            }
        }
        let version = &ready.backend.label().version;
        self.note_whose(version, migrates).await;
        let before = self.running.map(|running| running.number);
        let (tell, faults) = mpsc::channel(FAULTS);
        let policy = ServingPolicy {
            faults: Some(tell),
            ..ServingPolicy::of(&ready.desired.document)
        };
        let driver = &self.parts.driver;
        let retired = driver.activate(Arc::clone(&ready.backend) as Arc<dyn Backend>, policy);
        drop(held);
        *self.history = history;
        if let (Some(retired), Some(before)) = (retired, before) {
            let draining = self.shared.draining.lock();
            let mut draining = draining.unwrap_or_else(PoisonError::into_inner);
            draining.push((before, retired));
        }
        // A version that serves again goes by the secrets of now. Those that it was made with decide whether another one is due.
        let known = self.history.secrets_of(number).map(str::to_owned);
        let candidate = CandidateKey {
            secrets: known.unwrap_or(ready.candidate.secrets.clone()),
            ..ready.candidate.clone()
        };
        let doubts = Arc::default();
        if ready.imports_pool && self.parts.role != Role::Node {
            self.look_at_pools(&grants, &ready, Arc::clone(&doubts));
        }
        let running = Running {
            number,
            candidate,
            backend: ready.backend,
            grants,
            faults,
            trial: on_trial.then(|| Trial::new(self.policy, Instant::now())),
            warnings: ready.warnings,
            doubts,
        };
        Ok((running, writing))
    }

    /// The history as it will be, the version's number, and whether it is on trial.
    fn next(&self, ready: &Ready, coming: Coming) -> (History, u64, bool) {
        let mut history = self.history.clone();
        let now = SystemTime::now();
        match coming {
            Coming::New { proven, hold } => {
                let label = ready.backend.label();
                let number = history.admit(
                    NewVersion {
                        identity: ready.candidate.identity.clone(),
                        secrets: ready.candidate.secrets.clone(),
                        plugin: label.name.clone(),
                        plugin_version: label.version.clone(),
                        origin: ready.origin.clone(),
                        signed_by: ready.signed_by.clone(),
                        desired: ready.desired.clone(),
                        offer: ready.backend.offer().clone(),
                    },
                    proven,
                    now,
                );
                history.held = hold.map(|hold| Hold { number, ..hold });
                (history, number, true)
            }
            Coming::Again => {
                let current = history.current();
                let number = current.map_or(0, |entry| entry.record.number);
                let proven = current.is_some_and(|entry| entry.record.proven);
                // A version that was swapped to by hand is new; one that was rolled back to is not on trial.
                let held_by = history.held.as_ref().map(|held| &held.by);
                let gone_back = matches!(held_by, Some(HeldBy::Rollback | HeldBy::Faults { .. }));
                let on_trial = !proven && !gone_back;
                (history, number, on_trial)
            }
            Coming::Back(hold) => {
                let number = hold.number;
                history.roll_back_to(hold, ready.candidate.secrets.clone(), now);
                (history, number, false)
            }
        }
    }

    async fn grant(&self, grants: &Grants) -> Result<(), Refusal> {
        if self
            .running
            .is_some_and(|running| running.grants == *grants)
        {
            return Ok(());
        }
        let granted = (self.parts.grants)(grants.clone()).await;
        granted.map_err(|reason| Refusal::Grants { reason })
    }

    /// The running version goes on with its own.
    async fn grants_taken_back(&self, refusal: Refusal) -> Refusal {
        if let Some(running) = self.running
            && let Err(reason) = (self.parts.grants)(running.grants.clone()).await
        {
            tracing::error!(driver = %self.parts.driver.name(), reason, "grants of the running version are not in force");
        }
        refusal
    }

    /// Whoever waits for a swap need not wait for a disk that hangs.
    fn look_at_pools(&self, grants: &Grants, ready: &Ready, doubts: Arc<Mutex<Vec<String>>>) {
        let (parts, shared) = (Arc::clone(self.parts), Arc::clone(self.shared));
        let grants = grants.clone();
        let deadline = Instant::now() + ready.desired.document.limits.time;
        tokio::spawn(async move {
            let driver = parts.driver.name();
            let found = pools_in_doubt(&parts.mounter, driver, &grants, deadline).await;
            for doubt in &found {
                tracing::warn!(%driver, "{doubt}");
            }
            if !found.is_empty() {
                *doubts.lock().unwrap_or_else(PoisonError::into_inner) = found;
                shared.wake.notify_one();
            }
        });
    }
}

/// Says when calls of an old version do not end. They are never cut off.
pub(super) fn watch_drain(shared: &Arc<Shared>, driver: String, number: u64, patience: Duration) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(patience).await;
        let late = shared.draining();
        if let Some(version) = late.into_iter().find(|it| it.number == number) {
            tracing::warn!(
                driver,
                version = number,
                calls = version.calls,
                "calls of an old version still run: its memory is freed when the last one ends"
            );
            shared.tell(KeeperEvent::StillDraining(version));
        }
    });
}
