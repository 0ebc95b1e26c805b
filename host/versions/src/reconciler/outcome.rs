//! Handles the result of an attempt: activates or rejects the version, answers clients, and schedules the next attempt.

use super::activate::PINNED;
use super::reconcile::ReconcileLoop;
use super::state::{Admission, Goal, NotReady, Refused};
use crate::desired::Desired;
use crate::events::{Outcome, VersionEvent};
use crate::history::{CandidateKey, Known};
use crate::refusal::{Refusal, RetryPolicy};
use crate::trial::Trial;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::status::{HeldBy, Hold, RefusalKind, RefusedVersion, now};
use wasmount_core::text::{chain, shortened};

/// Longest reason of a rejection, in bytes: a plugin writes a part of some reasons, and the status of all drivers is one answer.
const REASON_BYTES: usize = 8 << 10;

impl ReconcileLoop {
    pub(super) async fn finish(&mut self, attempted: Result<Admission, NotReady>) {
        let Some(work) = self.work.take() else {
            return;
        };
        let (mut goal, revision) = (work.goal, work.revision);
        let place = work.desired.place();
        let outcome = match attempted {
            Ok(Admission::Ready(ready)) => {
                let is_again = ready.is_again;
                let candidate = Some(ready.candidate.clone());
                let origin = Some(ready.known.origin.to_string());
                let activated = match goal {
                    Goal::Share { .. } | Goal::RestoreShare => {
                        self.begin_share(*ready, &goal).await
                    }
                    _ => Box::pin(self.activate(*ready, &goal)).await,
                };
                if is_again && activated.is_ok() {
                    // The rest of the document is considered next.
                    goal = Goal::Restore;
                }
                activated.map_err(|refusal| NotReady {
                    refusal,
                    candidate,
                    origin,
                })
            }
            Ok(Admission::Serves(known)) => {
                let serves = self.serves(&goal, work.desired, known).await;
                serves.map_err(NotReady::from)
            }
            Ok(Admission::RefusedBefore) => {
                self.settled = revision;
                self.document_had_its_turn();
                return self.clean_up().await;
            }
            Err(not_ready) => Err(not_ready),
        };
        let answer = match outcome {
            Ok(outcome) => {
                self.succeeded(&goal, &outcome, revision);
                Ok(outcome)
            }
            Err(failed) => {
                // Its component and compiled code may be on disk.
                self.tidied = None;
                let (refusal, candidate) = (failed.refusal, failed.candidate);
                let origin = failed.origin.unwrap_or(place);
                self.remember(&goal, &refusal, candidate.as_ref(), origin)
                    .await;
                self.failed(&goal, &refusal, candidate, revision);
                if matches!(goal, Goal::RestoreShare) {
                    self.share_not_restored(&refusal).await;
                }
                Err(refusal)
            }
        };
        // Before the answer, so that the client sees the new status.
        self.publish();
        if let Some(reply) = work.reply {
            let _ = reply.send(answer);
        }
        self.clean_up().await;
    }

    /// Removes files that only versions needed which are no longer kept. The client of the swap has been answered.
    pub(super) async fn clean_up(&mut self) {
        self.forget_marks().await;
        let digests = self.history.digests();
        if self.tidied.as_ref() == Some(&digests) {
            return;
        }
        let compiled: Vec<String> = digests.iter().cloned().collect();
        let engine = &self.parts.engine;
        engine
            .retain_compiled(self.parts.driver.name(), &compiled)
            .await;
        self.disk.remove_others(digests.clone()).await;
        self.tidied = Some(digests);
    }

    /// The desired version already serves. An explicit swap ends a hold, and may pin the version.
    async fn serves(
        &mut self,
        goal: &Goal,
        desired: Desired,
        known: Known,
    ) -> Result<Outcome, Refusal> {
        let number = self.running.as_ref().map_or(0, |it| it.number);
        if matches!(goal, Goal::Share { .. }) {
            return self.outcome(Some(number), false);
        }
        // Beside a share it did not serve all volumes.
        let shared = self.history.share().map(|share| share.number);
        let mut history = self.history.clone();
        history.end_share(format!("version {number} was swapped to"), now());
        history.reword(desired, known);
        match goal {
            Goal::Swap { pinned: true, .. } => {
                history.held = Some(self.hold(number, HeldBy::Swap, PINNED));
            }
            Goal::Swap { .. } => history.held = None,
            // After a failed swap by hand the document means the version that was rolled back to: the hold stays, so that the rollback is still
            // reported.
            Goal::Converge if history.is_held_since(&self.desired) => {}
            // Another version than the failed one is desired, and it serves.
            Goal::Converge => history.held = None,
            Goal::Share { .. } | Goal::RestoreShare | Goal::Restore | Goal::RollBack(_) => {}
        }
        if history != self.history {
            self.record(history).await?;
        }
        self.leave_share(self.desired.document.versions.drain);
        self.outcome(shared.or(Some(number)), shared.is_some())
    }

    /// The outcome for the running version.
    pub(super) fn outcome(&self, before: Option<u64>, changed: bool) -> Result<Outcome, Refusal> {
        let running = self.running.as_ref().ok_or(Refusal::Overtaken)?;
        let entry = self.history.entry(running.number);
        Ok(Outcome {
            before,
            now: entry.ok_or(Refusal::Overtaken)?.record.clone(),
            changed,
            share: None,
            warnings: running.warnings.clone(),
            proving: Duration::ZERO,
            switching: Duration::ZERO,
            writing: Duration::ZERO,
        })
    }

    pub(super) fn report_serves(&self, outcome: &Outcome, trigger: &'static str) {
        let record = &outcome.now;
        tracing::info!(
            driver = %self.parts.driver.name(),
            from = outcome.before,
            to = record.number,
            trigger,
            plugin = %record.plugin,
            plugin_version = %record.plugin_version,
            digest = %record.digest,
            "the backend serves"
        );
    }

    fn succeeded(&mut self, goal: &Goal, outcome: &Outcome, revision: u64) {
        if outcome.changed && outcome.share.is_none() {
            self.report_serves(outcome, goal.trigger());
        }
        self.refused = None;
        self.retry = Default::default();
        match goal {
            Goal::Converge | Goal::Swap { .. } => {
                self.settled = revision;
                if outcome.changed {
                    self.shared.notify(VersionEvent::Swapped(outcome.clone()));
                }
            }
            Goal::Restore => {
                self.due = Some(Instant::now());
                self.shared.notify(VersionEvent::Swapped(outcome.clone()));
            }
            // `begin_share` has reported it.
            Goal::Share { .. } | Goal::RestoreShare => {}
            Goal::RollBack(hold) => {
                self.shared.notify(VersionEvent::RolledBack {
                    from: outcome.before.unwrap_or_default(),
                    to: outcome.now.clone(),
                    reason: hold.reason.clone(),
                    by_itself: matches!(hold.by, HeldBy::Faults { .. }),
                });
                // The document may mean another version than the failed one.
                self.due = Some(Instant::now());
            }
        }
    }

    fn failed(
        &mut self,
        goal: &Goal,
        refusal: &Refusal,
        candidate: Option<CandidateKey>,
        revision: u64,
    ) {
        match goal {
            Goal::Swap { pinned, .. } => self.refuse(refusal, candidate, !pinned),
            Goal::Share { .. } => self.refuse(refusal, candidate, false),
            // `share_not_restored` ends the share.
            Goal::RestoreShare => {}
            Goal::Restore => self.not_restored(refusal, candidate, revision),
            Goal::Converge => {
                let pause = self.retry.refused(refusal.retry_policy());
                let for_good = candidate.clone().filter(|_| pause.is_none());
                self.refuse(refusal, candidate, true);
                if let Some(refused) = &mut self.refused {
                    refused.for_good = for_good;
                }
                self.settled = revision;
                self.due = pause.map(|pause| Instant::now() + pause);
                self.document_had_its_turn();
            }
            Goal::RollBack(hold) => self.not_rolled_back(hold, refusal),
        }
    }

    fn not_rolled_back(&mut self, hold: &Hold, refusal: &Refusal) {
        let number = self.running.as_ref().map_or(0, |it| it.number);
        let reason = format!("{}; {}", hold.reason, describe(refusal));
        tracing::error!(driver = %self.parts.driver.name(), reason, "rollback failed");
        self.due = Some(Instant::now());
        if !matches!(hold.by, HeldBy::Faults { .. }) {
            return;
        }
        let event = VersionEvent::CannotRollBack { number, reason };
        self.shared.notify(event);
        // A rollback that is not possible for a while, because of a full disk or a call that does not end, is tried when the version has faults
        // again.
        let desired = self.history.current().and_then(|entry| entry.desired());
        if refusal.retry_policy() != RetryPolicy::Never
            && let (Some(running), Some(desired)) = (&mut self.running, desired)
        {
            let policy = &desired.document.versions;
            running.trial = Some(Trial::new(policy, Instant::now()));
        }
    }

    /// The version that served when the host ended cannot serve yet: the document is tried, if it is followed.
    fn not_restored(&mut self, refusal: &Refusal, candidate: Option<CandidateKey>, revision: u64) {
        let Some(mut restore) = self.restore.take() else {
            return;
        };
        let policy = refusal.retry_policy();
        restore.is_tried = true;
        restore.is_judged = policy == RetryPolicy::Never;
        restore.pause = restore.retry.refused(policy);
        let version = refused(refusal, candidate.as_ref(), true);
        self.report_refused(&version, restore.refused.as_ref());
        restore.refused = Some(Refused {
            version,
            for_good: candidate.filter(|_| restore.pause.is_none()),
        });
        if self.history.follows(&self.desired) {
            self.due = Some(Instant::now());
        } else {
            self.settled = revision;
            self.due = restore.pause.map(|pause| Instant::now() + pause);
        }
        self.restore = Some(restore);
    }

    /// The desired version may not serve either: the version that served is tried next, unless it is rejected for good.
    fn document_had_its_turn(&mut self) {
        if let Some(restore) = &mut self.restore {
            restore.is_tried = restore.is_judged;
            let next = restore.pause.map(|pause| Instant::now() + pause);
            self.due = [self.due, next].into_iter().flatten().min();
        }
    }

    /// The last rejection; that of the document takes precedence.
    pub(super) fn last_refused(&self) -> Option<&Refused> {
        let of_version = self.restore.as_ref().and_then(|it| it.refused.as_ref());
        self.refused.as_ref().or(of_version)
    }

    /// The candidate that is not tried again.
    pub(super) fn refused_for_good(&self) -> Option<CandidateKey> {
        let of_version = self.restore.as_ref().and_then(|it| it.refused.as_ref());
        let mut refused = [self.refused.as_ref(), of_version].into_iter().flatten();
        refused.find_map(|refused| refused.for_good.clone())
    }

    /// Records and reports a rejection; the same one is reported once.
    pub(super) fn refuse(
        &mut self,
        refusal: &Refusal,
        candidate: Option<CandidateKey>,
        by_document: bool,
    ) {
        let version = refused(refusal, candidate.as_ref(), by_document);
        self.report_refused(&version, self.refused.as_ref());
        self.refused = Some(Refused {
            version,
            for_good: None,
        });
    }

    /// `last`: the rejection before it.
    fn report_refused(&self, version: &RefusedVersion, last: Option<&Refused>) {
        let driver = self.parts.driver.name();
        let (reason, serves) = (&version.reason, self.running.is_some());
        if !serves {
            self.parts.driver.set_fault(reason.clone());
        }
        let is_new = last.map(|it| &it.version).is_none_or(|last| {
            (&last.digest, last.kind, &last.reason)
                != (&version.digest, version.kind, &version.reason)
        });
        if is_new {
            let kind = version.kind.as_str();
            if serves {
                tracing::warn!(%driver, kind, reason, serves, "version rejected");
            } else {
                tracing::error!(%driver, kind, reason, serves, "version rejected, and no other version serves");
            }
            self.shared.notify(VersionEvent::Refused(version.clone()));
        }
    }

    /// Remembers a rejected candidate, across restarts. A rollback that is not possible is not a candidate, and neither is an attempt that was
    /// overtaken.
    async fn remember(
        &mut self,
        goal: &Goal,
        refusal: &Refusal,
        candidate: Option<&CandidateKey>,
        origin: String,
    ) {
        let is_other = matches!(
            refusal.kind(),
            RefusalKind::History | RefusalKind::Overtaken
        );
        if is_other || matches!(goal, Goal::RollBack(_)) {
            return;
        }
        let mut version = refused(refusal, candidate, true);
        if let (None, Refusal::OtherDigest { found, .. }) = (candidate, refusal) {
            version.digest = Some(found.clone());
        }
        self.refusals.note(version, origin);
        let refusals = self.refusals.newest_first();
        self.shared.refusals.send_replace(refusals);
        if let Err(error) = self.disk.write_refusals(&self.refusals).await {
            tracing::warn!(driver = %self.parts.driver.name(), %error, "rejected versions will be forgotten at the next start");
        }
    }
}

fn refused(
    refusal: &Refusal,
    candidate: Option<&CandidateKey>,
    by_document: bool,
) -> RefusedVersion {
    RefusedVersion {
        by_document,
        digest: candidate.map(|candidate| candidate.digest.clone()),
        kind: refusal.kind(),
        reason: describe(refusal),
        at: now(),
    }
}

/// An error with all of its causes, as statuses and events show it.
pub(super) fn describe(refusal: &Refusal) -> String {
    shortened(chain(refusal), REASON_BYTES)
}
