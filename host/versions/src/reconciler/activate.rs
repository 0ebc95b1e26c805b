//! Activates a version. The order of the steps decides what a kill leaves:
//!
//! 1. the component is on disk, and calls that must end have ended (`admit`);
//! 2. the mounter has the grants, and the records are as the version needs them;
//! 3. the history names the version as serving: **from here on a restart finds the new one**, before it the old one;
//! 4. calls go to it.
//!
//! A step that fails rolls back those before it, and the running version continues.

use super::reconcile::ReconcileLoop;
use super::state::{Goal, Ready, Running, Serving};
use crate::admission::Admitted;
use crate::desired::Desired;
use crate::events::{Outcome, VersionEvent};
use crate::history::{CandidateKey, History, NewVersion, desired_digest};
use crate::refusal::Refusal;
use crate::trial::Trial;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use wasmount_core::backend::Backend;
use wasmount_core::document::{Grants, VersionPolicy};
use wasmount_core::driver::{Role, RunningCalls, ServingPolicy};
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;
use wasmount_core::pool::PoolCall;
use wasmount_core::status::{HeldBy, Hold, now};

/// Faults that may wait for the reconciler. 1,024: more than any sensible fault limit of a trial.
const FAULTS: usize = 1024;
/// The reason of a hold at a version that no document asks for.
pub(super) const PINNED: &str = "an administrator swapped to it, without the document";

impl ReconcileLoop {
    pub(super) async fn activate(&mut self, ready: Ready, goal: &Goal) -> Result<Outcome, Refusal> {
        let driver = Arc::clone(&self.parts.driver);
        let policy = self.policy(goal, &ready.desired).clone();
        let (mut history, on_trial) = self.history_with(&ready, goal);
        history.prune(policy.keep);
        let number = history.current_number();
        let (admitted, candidate) = (ready.admitted, ready.candidate);
        let (backend, document) = (Arc::clone(&admitted.backend), &ready.desired.document);
        let plugin_version = backend.label().version.clone();

        self.grant(&document.grants).await?;
        let migrates = ready.step.is_some();
        let changed = self.change_records(ready.step, &backend, &document.limits, &history);
        let is_rewritten = match changed.await {
            Ok(is_rewritten) => is_rewritten,
            Err(refusal) => return Err(self.restore_grants(refusal).await),
        };
        let mut writing = Duration::ZERO;
        if history != self.history {
            match self.disk.write(&history).await {
                Ok(took) => writing = took,
                // The records are already those of the new version, and a restart will see that.
                Err(refusal) if is_rewritten => {
                    tracing::error!(driver = %driver.name(), error = %refusal, "activation of the version could not be recorded");
                }
                Err(refusal) => return Err(self.restore_grants(refusal).await),
            }
        }
        self.note_owner(&plugin_version, migrates).await;

        let has_pools = admitted.imports_pool && driver.role() != Role::Node;
        let pool_check =
            has_pools.then(|| self.pool_check(document.grants.clone(), document.limits.time));
        let trial = on_trial.then(|| Trial::new(&policy, Instant::now()));
        let (running, serving_policy) = running(
            &history,
            number,
            &ready.desired,
            &admitted,
            candidate,
            trial,
        );
        self.share_hold = (history.share().is_some()).then(|| driver.hold());
        let retired = driver.activate(backend, serving_policy);
        *lock(&self.shared.network) = admitted.network;
        self.leave_share(policy.drain);
        drop(ready.quiesced);
        self.history = history;
        let before = self.running.as_ref().map(|running| running.number);
        for warning in &running.warnings {
            tracing::warn!(driver = %driver.name(), "{warning}");
        }
        self.running = Some(Running {
            pool_check,
            ..running
        });
        self.restore = None;
        if let (Some(retired), Some(before)) = (retired, before) {
            self.watch_drain(before, retired, policy.drain);
        }
        let outcome = self.outcome(before, true)?;
        Ok(Outcome {
            proving: ready.proving,
            switching: ready.proved_at.elapsed(),
            writing,
            ..outcome
        })
    }

    /// The `versions` settings are not part of a version: the current ones also apply to an earlier version.
    pub(super) fn policy<'a>(&'a self, goal: &Goal, desired: &'a Desired) -> &'a VersionPolicy {
        let desired = if goal.is_new() {
            desired
        } else {
            &self.desired
        };
        &desired.document.versions
    }

    /// The history with this version, and whether it is on trial.
    fn history_with(&mut self, ready: &Ready, goal: &Goal) -> (History, bool) {
        let mut history = self.history.clone();
        let at = now();
        if ready.is_again {
            let proven = history.current().is_some_and(|entry| entry.record.proven);
            // A version that was swapped to by hand is new; one that was rolled back to is not on trial.
            let hold_cause = history.held.as_ref().map(|hold| &hold.by);
            let gone_back = matches!(hold_cause, Some(HeldBy::Rollback | HeldBy::Faults { .. }));
            return (history, !proven && !gone_back);
        }
        if let Goal::RollBack(hold) = goal {
            history.roll_back_to(hold.clone(), ready.candidate.secrets.clone(), at);
            return (history, false);
        }
        let proven = self.is_without_fault();
        let number = history.admit(new_version(ready), proven, at);
        if matches!(goal, Goal::Swap { pinned: true, .. }) {
            history.held = Some(self.hold(number, HeldBy::Swap, PINNED));
        }
        (history, true)
    }

    /// The version that serves can be rolled back to if it had no fault in its last window, even if it did not serve long.
    pub(super) fn is_without_fault(&mut self) -> bool {
        let trial = self.running.as_mut().and_then(|it| it.trial.as_mut());
        trial.is_some_and(|trial| trial.faults_until(Instant::now()) == 0)
    }

    /// A hold that begins now.
    pub(super) fn hold(&self, number: u64, by: HeldBy, reason: &str) -> Hold {
        Hold {
            number,
            by,
            reason: reason.to_owned(),
            since: now(),
            revision: Some(desired_digest(&self.desired)),
        }
    }

    pub(super) async fn grant(&mut self, grants: &Grants) -> Result<(), Refusal> {
        let running = self.running.as_ref();
        if running.is_some_and(|running| running.serving.grants == *grants) {
            return Ok(());
        }
        let granted = (self.parts.grants)(grants.clone()).await;
        granted.map_err(Refusal::Grants)
    }

    /// Restores the grants of the running version.
    pub(super) async fn restore_grants(&mut self, refusal: Refusal) -> Refusal {
        if let Some(running) = &self.running
            && let Err(reason) = (self.parts.grants)(running.serving.grants.clone()).await
        {
            tracing::error!(driver = %self.parts.driver.name(), reason, "grants of the running version are not in effect");
        }
        refusal
    }

    /// One warning for each granted pool that cannot be opened. Opening a pool takes ownership of it, so this runs only where the calls that change
    /// pools are served. It is separate from the swap, so that the client of the swap does not wait for a disk that hangs.
    fn pool_check(&self, grants: Grants, time: Duration) -> BoxFuture<'static, Vec<String>> {
        let parts = Arc::clone(&self.parts);
        let deadline = Instant::now() + time;
        Box::pin(async move {
            let driver = parts.driver.name();
            let mut doubts = Vec::new();
            for pool in grants.pools.keys() {
                let call = PoolCall::Capacity { pool: pool.clone() };
                let query = parts.mounter.pool(driver.clone(), call);
                let reason = match timeout_at(deadline, query).await {
                    // Without an answer of a mounter in another process nothing is known of the pool. The host reports that itself, but not while a
                    // mounter that was started with it may still come.
                    Ok(Ok(_) | Err(MountError::Unreachable(_))) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "its file system does not answer".to_owned(),
                };
                let doubt =
                    format!("spec.grants.pools.{pool}.path: the pool cannot be used: {reason}");
                tracing::warn!(%driver, "{doubt}");
                doubts.push(doubt);
            }
            doubts
        })
    }

    /// Reports when calls of an old version do not end. They are never cancelled.
    pub(super) fn watch_drain(&self, number: u64, calls: RunningCalls, grace_period: Duration) {
        lock(&self.shared.draining).push((number, calls));
        let shared = Arc::clone(&self.shared);
        let driver = self.parts.driver.name().to_string();
        tokio::spawn(async move {
            sleep(grace_period).await;
            let late = shared.draining();
            if let Some(version) = late.into_iter().find(|it| it.number == number) {
                tracing::warn!(
                    driver,
                    version = number,
                    calls = version.calls,
                    "calls of an old version still run: its memory is freed when the last one ends"
                );
                shared.notify(VersionEvent::StillDraining(version));
            }
        });
    }
}

/// A version that begins to serve, as the history records it.
pub(super) fn new_version(ready: &Ready) -> NewVersion {
    let label = ready.admitted.backend.label();
    NewVersion {
        key: ready.candidate.clone(),
        plugin: label.name.clone(),
        plugin_version: label.version.clone(),
        known: ready.known.clone(),
        desired: ready.desired.clone(),
        offer: ready.admitted.backend.offer().clone(),
    }
}

/// A version as the loop sees it while it serves, and how the driver serves it.
pub(super) fn running(
    history: &History,
    number: u64,
    desired: &Desired,
    admitted: &Admitted,
    candidate: CandidateKey,
    trial: Option<Trial>,
) -> (Running, ServingPolicy) {
    let (sender, faults) = mpsc::channel(FAULTS);
    let policy = ServingPolicy {
        version: Some(number),
        faults: Some(sender),
        ..ServingPolicy::of(&desired.document)
    };
    // A version that serves again uses the current secrets. The secrets that it was recorded with decide whether another version is due.
    let secrets = history.secrets_of(number).map(str::to_owned);
    let running = Running {
        number,
        serving: Serving {
            candidate: CandidateKey {
                secrets: secrets.unwrap_or(candidate.secrets),
                ..candidate
            },
            backend: Arc::clone(&admitted.backend),
            grants: desired.document.grants.clone(),
        },
        faults,
        last_fault: None,
        trial,
        warnings: admitted.warnings.clone(),
        pool_check: None,
        doubts: Vec::new(),
    };
    (running, policy)
}
