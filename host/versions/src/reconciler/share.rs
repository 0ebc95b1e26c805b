//! A share of the volumes for a new version: it is admitted as for a swap and serves beside the running one, until a promotion, a rollback or its
//! faults.

use super::activate::{PINNED, new_version, running};
use super::command::too_many_faults;
use super::outcome::describe;
use super::reconcile::ReconcileLoop;
use super::state::{Goal, Ready, Running, SharedVersion};
use super::{ShareRequest, SwapRequest};
use crate::events::{Outcome, VersionEvent};
use crate::history::desired_digest;
use crate::refusal::Refusal;
use crate::trial::{Promotion, Trial};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::backend::Backend;
use wasmount_core::driver::VersionFault;
use wasmount_core::fault::Owner;
use wasmount_core::mutex::lock;
use wasmount_core::status::{HeldBy, Share, now};
use wasmount_core::text::chain;

/// The share of a version that serves all volumes.
const ALL: u8 = 100;

impl ReconcileLoop {
    /// The goal of a swap by command. Otherwise the swap is done: it changes a share that a version has, or is rejected.
    pub(super) async fn goal_of(
        &mut self,
        request: &SwapRequest,
    ) -> Result<Goal, Box<Result<Outcome, Refusal>>> {
        let pinned = request.desired.is_some();
        let refused = |reason: String| Err(Box::new(Err(Refusal::Share(reason))));
        match (request.share, self.history.share()) {
            (None, _) => Ok(Goal::Swap {
                allow_service_change: request.allow_service_change,
                pinned,
            }),
            (Some(share), Some(_)) if !pinned => Err(Box::new(self.grow_share(share).await)),
            (Some(_), Some(Share { number, .. })) => refused(format!(
                "version {number} has one already: promote it with --share 100, or end it with `wasmount rollback`"
            )),
            (Some(share), None) if share.percent >= ALL => refused(
                "no version has one that could be promoted; swap without --share".to_owned(),
            ),
            (Some(share), None) => Ok(Goal::Share { share, pinned }),
        }
    }

    /// Starts the attempt at the version that had a share when the host ended, once the version beside it serves. False: there is none.
    pub(super) fn restores_share(&mut self) -> bool {
        let Some(share) = self.history.share().filter(|_| self.share.is_none()) else {
            return false;
        };
        let desired = self.history.entry(share.number);
        let desired = desired.and_then(|entry| entry.desired()).cloned();
        match desired {
            Some(desired) if self.running.is_some() => {
                self.start(Goal::RestoreShare, desired, None);
                true
            }
            _ => false,
        }
    }

    /// The version serves its share.
    pub(super) async fn begin_share(
        &mut self,
        ready: Ready,
        goal: &Goal,
    ) -> Result<Outcome, Refusal> {
        let driver = Arc::clone(&self.parts.driver);
        let policy = self.policy(goal, &ready.desired).clone();
        let mut history = self.history.clone();
        if let Goal::Share { share, pinned } = goal {
            let share = Share {
                number: 0,
                percent: share.percent,
                since: now(),
                promote_after_seconds: share.promote_after.map(|after| after.as_secs()),
                pinned: *pinned,
                revision: desired_digest(&self.desired),
            };
            history.begin_share(new_version(&ready), share, now());
            history.prune(policy.keep);
        }
        let share = history.share().cloned().ok_or(Refusal::Overtaken)?;
        let recalled = driver.recall_places().await;
        recalled.map_err(|error| Refusal::Share(chain(&error)))?;
        let mut writing = Duration::ZERO;
        if history != self.history {
            writing = self.disk.write(&history).await?;
        }
        let Ready {
            admitted,
            candidate,
            desired,
            ..
        } = ready;
        let trial = Some(Trial::new(&policy, Instant::now()));
        let (running, serving_policy) = running(
            &history,
            share.number,
            &desired,
            &admitted,
            candidate,
            trial,
        );
        let backend = Arc::clone(&admitted.backend) as Arc<dyn Backend>;
        driver.begin_share(backend, serving_policy, share.percent);
        self.share_hold = None;
        self.history = history;
        self.share = Some(SharedVersion {
            running,
            network: admitted.network,
            promotion: promotion(&share),
        });
        let outcome = Outcome {
            proving: ready.proving,
            switching: ready.proved_at.elapsed(),
            writing,
            ..self.outcome_of_share(&share, true)?
        };
        self.report_share(&outcome, goal.trigger());
        Ok(outcome)
    }

    /// By command: a larger share, and with all volumes the promotion.
    async fn grow_share(&mut self, request: ShareRequest) -> Result<Outcome, Refusal> {
        let share = self.history.share().cloned().ok_or(Refusal::Overtaken)?;
        if request.percent < share.percent {
            return Err(Refusal::Share(format!(
                "that of version {} is {} % and only grows; `wasmount rollback` ends it",
                share.number, share.percent
            )));
        }
        if request.percent >= ALL {
            return self.promote_share("swap command").await;
        }
        let mut history = self.history.clone();
        let after = request.promote_after.map(|after| after.as_secs());
        history.grow_share(request.percent, after);
        let share = history.share().cloned().ok_or(Refusal::Overtaken)?;
        if history == self.history {
            return self.outcome_of_share(&share, false);
        }
        self.record(history).await?;
        self.parts.driver.grow_share(share.percent);
        if let Some(shared) = &mut self.share {
            shared.promotion = promotion(&share);
        }
        let outcome = self.outcome_of_share(&share, true)?;
        self.report_share(&outcome, "swap command");
        Ok(outcome)
    }

    /// The version with the share serves everything. It was admitted, and its records and grants are those of the running one.
    async fn promote_share(&mut self, trigger: &'static str) -> Result<Outcome, Refusal> {
        let began = Instant::now();
        let share = self.history.share().cloned().ok_or(Refusal::Overtaken)?;
        let shared = self.share.as_ref().ok_or(Refusal::Overtaken)?;
        let backend = Arc::clone(&shared.running.serving.backend);
        let grants = shared.running.serving.grants.clone();
        let policy = self.desired.document.versions.clone();
        let hold = share
            .pinned
            .then(|| self.hold(share.number, HeldBy::Swap, PINNED));
        let proven = self.is_without_fault();
        let mut history = self.history.clone();
        history.promote(proven, hold, now());
        history.prune(policy.keep);
        let desired = history.current().and_then(|entry| entry.desired());
        let limits = desired.map(|it| it.document.limits.clone());
        let limits = limits.unwrap_or_default();

        self.grant(&grants).await?;
        let changed = self.change_records(None, &backend, &limits, &history);
        let written = match changed.await {
            Ok(_) => self.disk.write(&history).await,
            Err(refusal) => Err(refusal),
        };
        let writing = match written {
            Ok(writing) => writing,
            Err(refusal) => return Err(self.restore_grants(refusal).await),
        };
        self.note_owner(&backend.label().version, false).await;
        let calls = self.parts.driver.promote_share();
        self.history = history;
        let before = self.running.as_ref().map(|running| running.number);
        if let Some(shared) = self.share.take() {
            *lock(&self.shared.network) = shared.network;
            self.running = Some(Running {
                trial: Some(Trial::new(&policy, Instant::now())),
                ..shared.running
            });
        }
        if let (Some(calls), Some(before)) = (calls, before) {
            self.watch_drain(before, calls, policy.drain);
        }
        self.forget_places();
        self.due = Some(Instant::now());
        let outcome = Outcome {
            switching: began.elapsed(),
            writing,
            ..self.outcome(before, true)?
        };
        self.report_serves(&outcome, trigger);
        self.shared.notify(VersionEvent::Swapped(outcome.clone()));
        self.clean_up().await;
        Ok(outcome)
    }

    /// The running version serves everything again, and is held.
    pub(super) async fn undo_share(
        &mut self,
        by: HeldBy,
        reason: String,
    ) -> Result<Outcome, Refusal> {
        let share = self.history.share().cloned().ok_or(Refusal::Overtaken)?;
        let by_itself = matches!(by, HeldBy::Faults { .. });
        let drain = self.desired.document.versions.drain;
        if by_itself {
            // No further call meets its faults while the disk is slow.
            self.leave_share(drain);
        }
        let mut history = self.history.clone();
        history.end_share(reason.clone(), now());
        history.held = Some(self.hold(history.current_number(), by, &reason));
        match self.disk.write(&history).await {
            Ok(_) => {}
            Err(error) if by_itself => {
                tracing::error!(driver = %self.parts.driver.name(), %error, "the end of a share could not be recorded: a restart would begin it again");
            }
            Err(refusal) => return Err(refusal),
        }
        self.history = history;
        self.leave_share(drain);
        self.share_hold = None;
        self.due = Some(Instant::now());
        let serves = self.history.current().ok_or(Refusal::Overtaken)?;
        let serves = serves.record.clone();
        self.shared.notify(VersionEvent::RolledBack {
            from: share.number,
            to: serves.clone(),
            reason,
            by_itself,
        });
        Ok(Outcome {
            before: Some(share.number),
            now: serves,
            share: None,
            ..self.outcome_of_share(&share, true)?
        })
    }

    /// Directs all calls to the running version, if another one has a share.
    pub(super) fn leave_share(&mut self, drain: Duration) {
        let Some(shared) = self.share.take() else {
            return;
        };
        if let Some(calls) = self.parts.driver.end_share() {
            self.watch_drain(shared.running.number, calls, drain);
        }
        self.forget_places();
    }

    /// A fault of the version with the share. It is on trial as long as it has a share.
    pub(super) async fn share_fault(&mut self, fault: VersionFault) {
        let Some(shared) = &mut self.share else {
            return;
        };
        if fault.kind.owner() != Owner::Plugin {
            return;
        }
        if let Some(promotion) = &mut shared.promotion {
            promotion.begin_again(fault.at);
        }
        let number = shared.running.number;
        let Some(trial) = &mut shared.running.trial else {
            return;
        };
        if !trial.fault(&fault) {
            return;
        }
        let reason = too_many_faults(number, trial.faults_until(fault.at), &fault);
        self.fail_share(number, reason).await;
    }

    /// The version that had a share when the host ended cannot serve: its share ends.
    pub(super) async fn share_not_restored(&mut self, refusal: &Refusal) {
        if let Some(share) = self.history.share() {
            let number = share.number;
            let reason = describe(refusal);
            let reason =
                format!("version {number} cannot serve its share after the restart: {reason}");
            self.fail_share(number, reason).await;
        }
    }

    async fn fail_share(&mut self, number: u64, reason: String) {
        let to = self.history.current_number();
        tracing::error!(driver = %self.parts.driver.name(), from = number, to, trigger = "faults", reason, "version rolled back: its share of the volumes ends");
        // It does not fail: there is a share.
        let _ = self
            .undo_share(HeldBy::Faults { failed: number }, reason)
            .await;
    }

    /// Promotes by time.
    pub(super) async fn check_promotion(&mut self) {
        if self.work.is_some() {
            return;
        }
        let answered = self.parts.driver.calls_answered_in_share();
        let shared = self.share.as_mut();
        let promotion = shared.and_then(|shared| shared.promotion.as_mut());
        if promotion.is_some_and(|it| it.is_due(Instant::now(), answered))
            && let Err(error) = self.promote_share("promotion").await
        {
            tracing::warn!(driver = %self.parts.driver.name(), %error, "the version with a share of the volumes could not be promoted: it is tried again after the same time");
        }
    }

    /// The result for the version with the share.
    fn outcome_of_share(&self, share: &Share, changed: bool) -> Result<Outcome, Refusal> {
        let entry = self.history.entry(share.number);
        let shared = self.share.as_ref();
        Ok(Outcome {
            before: Some(self.history.current_number()),
            now: entry.ok_or(Refusal::Overtaken)?.record.clone(),
            changed,
            share: Some(share.percent),
            warnings: shared.map_or_else(Vec::new, |it| it.running.warnings.clone()),
            proving: Duration::ZERO,
            switching: Duration::ZERO,
            writing: Duration::ZERO,
        })
    }

    fn report_share(&self, outcome: &Outcome, trigger: &'static str) {
        tracing::info!(
            driver = %self.parts.driver.name(),
            version = outcome.now.number,
            percent = outcome.share,
            trigger,
            plugin = %outcome.now.plugin,
            plugin_version = %outcome.now.plugin_version,
            digest = %outcome.now.digest,
            "a version serves a share of the volumes"
        );
        self.shared.notify(VersionEvent::Shared(outcome.clone()));
    }

    /// Removes in the background what only the share needed.
    fn forget_places(&self) {
        let driver = Arc::clone(&self.parts.driver);
        tokio::spawn(async move {
            if let Err(error) = driver.forget_places().await {
                tracing::warn!(driver = %driver.name(), %error, "records of a share remain until the next one ends");
            }
        });
    }
}

fn promotion(share: &Share) -> Option<Promotion> {
    let after = Duration::from_secs(share.promote_after_seconds?);
    Some(Promotion::new(after, Instant::now()))
}
