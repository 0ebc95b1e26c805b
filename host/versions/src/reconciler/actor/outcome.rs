//! What an attempt came to, and who is told.

use super::{Actor, Purpose, Refused, Work};
use crate::desired::{Desired, Origin};
use crate::disk::Disk;
use crate::history::wish_digest;
use crate::reconciler::candidate::{AttemptOutcome, CandidateKey, NotReady};
use crate::reconciler::command::Reply;
use crate::reconciler::records::forget_marks;
use crate::reconciler::retry::Retry;
use crate::record::{HeldBy, Hold};
use crate::refusal::{Patience, Refusal};
use crate::status::{KeeperEvent, Outcome, RefusedVersion};
use crate::trial::Trial;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use wasmount_core::text::shortened;

/// Longest reason of a refusal, in bytes: a plugin has a word in some of them, and the status of all drivers is one answer.
const REASON_BYTES: usize = 8 << 10;

/// What a swap took, see [`Outcome`].
#[derive(Default)]
pub(super) struct Times {
    pub(super) proving: Duration,
    pub(super) switching: Duration,
    pub(super) writing: Duration,
}

impl Actor {
    pub(super) async fn done(
        &mut self,
        attempted: Result<AttemptOutcome, NotReady>,
        disk: &Arc<Disk>,
    ) {
        let Some(Work {
            purpose,
            desired,
            revision,
            future: _,
        }) = self.work.take()
        else {
            return;
        };
        let place = desired.place();
        match attempted {
            Ok(AttemptOutcome::Ready(ready)) => {
                let future = Box::pin(self.prepare(ready, &purpose, disk)).await;
                self.work = Some(Work {
                    purpose,
                    desired,
                    revision,
                    future,
                });
                return;
            }
            Ok(AttemptOutcome::Prepared(ready, prepared)) => {
                let (candidate, origin) = (ready.candidate.clone(), ready.origin.to_string());
                let is_again = self.is_what_served(&purpose, &candidate);
                let put = Box::pin(self.activate(*ready, &purpose, *prepared, disk)).await;
                match put {
                    // What else the document says is looked at next.
                    Ok(outcome) if is_again => self.succeeded(Purpose::Restore, outcome, revision),
                    Ok(outcome) => self.succeeded(purpose, outcome, revision),
                    Err(refusal) => {
                        // Its component may be on disk.
                        self.tidied = None;
                        let of = (Some(&candidate), origin);
                        self.remember(&purpose, &refusal, of, disk).await;
                        self.failed(purpose, refusal, Some(candidate), revision);
                    }
                }
            }
            Ok(AttemptOutcome::Serves { origin, signed_by }) => {
                let same = self
                    .serves(&purpose, desired, (origin, signed_by), disk)
                    .await;
                match same {
                    Ok(outcome) => self.succeeded(purpose, outcome, revision),
                    Err(refusal) => {
                        self.remember(&purpose, &refusal, (None, place), disk).await;
                        self.failed(purpose, refusal, None, revision);
                    }
                }
            }
            Ok(AttemptOutcome::FailedBefore | AttemptOutcome::RefusedBefore) => {
                self.settled = revision;
                self.document_had_its_turn();
            }
            Err(NotReady {
                refusal,
                candidate,
                origin,
            }) => {
                let origin = origin.map_or(place, |origin| origin.to_string());
                let of = (candidate.as_ref(), origin);
                self.remember(&purpose, &refusal, of, disk).await;
                // What was compiled of it is of no use to anybody.
                self.tidied = None;
                self.failed(purpose, refusal, candidate, revision);
            }
        }
        self.clean_up(disk).await;
    }

    /// Removes what only versions needed that are not kept any more. Whoever asked for the swap has his answer.
    pub(super) async fn clean_up(&mut self, disk: &Arc<Disk>) {
        forget_marks(&self.parts, &self.history).await;
        let digests = self.history.digests();
        if self.tidied.as_ref() == Some(&digests) {
            return;
        }
        let compiled: Vec<String> = digests.iter().cloned().collect();
        let engine = &self.parts.engine;
        engine
            .retain_compiled(self.parts.driver.name(), &compiled)
            .await;
        disk.remove_others(digests.clone()).await;
        self.tidied = Some(digests);
    }

    /// What is wanted serves already. An explicit swap lifts what holds the backend, and may pin it.
    async fn serves(
        &mut self,
        purpose: &Purpose,
        desired: Desired,
        (origin, signed_by): (Origin, Vec<String>),
        disk: &Arc<Disk>,
    ) -> Result<Outcome, Refusal> {
        let number = self.running.as_ref().map_or(0, |it| it.number);
        let mut history = self.history.clone();
        history.reword(desired, origin, signed_by);
        match purpose {
            Purpose::Swap { pinned: true, .. } => {
                history.held = Some(Hold {
                    number,
                    ..pin(&self.desired)
                });
            }
            Purpose::Swap { .. } => history.held = None,
            // What it meant when a swap by hand failed stays told as what was gone back to.
            Purpose::Converge if history.is_held_since(&self.desired) => {}
            // Another than the one that failed is wanted, and it serves.
            Purpose::Converge => history.held = None,
            Purpose::Restore | Purpose::Back { .. } => {}
        }
        if history != self.history {
            disk.write(&history).await?;
            self.history = history;
        }
        let running = self.running.as_ref();
        let warnings = running.map(|it| it.warnings.clone()).unwrap_or_default();
        self.outcome(Some(number), number, false, warnings, Times::default())
    }

    pub(super) fn outcome(
        &self,
        before: Option<u64>,
        number: u64,
        changed: bool,
        warnings: Vec<String>,
        times: Times,
    ) -> Result<Outcome, Refusal> {
        let Times {
            proving,
            switching,
            writing,
        } = times;
        let entry = self.history.entry(number).ok_or(Refusal::Overtaken)?;
        Ok(Outcome {
            before,
            now: entry.record.clone(),
            changed,
            warnings,
            proving,
            switching,
            writing,
        })
    }

    fn succeeded(&mut self, purpose: Purpose, outcome: Outcome, revision: u64) {
        let driver = self.parts.driver.name();
        let record = &outcome.now;
        if outcome.changed {
            tracing::info!(
                %driver,
                version = record.number,
                plugin = %record.plugin,
                plugin_version = %record.plugin_version,
                digest = %record.digest,
                "the backend serves"
            );
        }
        self.refused = None;
        self.retry = Retry::default();
        match &purpose {
            Purpose::Converge | Purpose::Swap { .. } => {
                self.settled = revision;
                if outcome.changed {
                    self.shared.tell(KeeperEvent::Swapped(outcome.clone()));
                }
            }
            Purpose::Restore => {
                self.due = Some(Instant::now());
                self.shared.tell(KeeperEvent::Swapped(outcome.clone()));
            }
            Purpose::Back { hold, .. } => {
                let by_itself = matches!(hold.by, HeldBy::Faults { .. });
                self.shared.tell(KeeperEvent::RolledBack {
                    from: outcome.before.unwrap_or_default(),
                    to: outcome.now.clone(),
                    reason: hold.reason.clone(),
                    by_itself,
                });
                // The document may mean another one than the one that failed.
                self.due = Some(Instant::now());
            }
        }
        // Last, so that whoever is answered finds it so.
        self.publish();
        answer(purpose, Ok(outcome));
    }

    fn failed(
        &mut self,
        purpose: Purpose,
        refusal: Refusal,
        candidate: Option<CandidateKey>,
        revision: u64,
    ) {
        let patience = refusal.patience();
        match &purpose {
            Purpose::Swap { pinned, .. } => self.refuse(&refusal, candidate, !pinned),
            Purpose::Restore => self.not_restored(&refusal, candidate, revision),
            Purpose::Converge => {
                let pause = self.retry.refused(patience);
                let for_good = candidate.clone().filter(|_| pause.is_none());
                self.refuse(&refusal, candidate, true);
                if let Some(refused) = &mut self.refused {
                    refused.for_good = for_good;
                }
                self.settled = revision;
                self.due = pause.map(|pause| Instant::now() + pause);
                self.document_had_its_turn();
            }
            Purpose::Back { hold, .. } => {
                let number = self.running.as_ref().map_or(0, |it| it.number);
                let reason = format!("{}; {}", hold.reason, describe(&refusal));
                tracing::error!(driver = %self.parts.driver.name(), reason, "rollback failed");
                if matches!(hold.by, HeldBy::Faults { .. }) {
                    self.shared
                        .tell(KeeperEvent::CannotRollBack { number, reason });
                    if patience != Patience::None {
                        self.try_again();
                    }
                }
                self.due = Some(Instant::now());
            }
        }
        self.publish();
        answer(purpose, Err(refusal));
    }

    /// A way back that is closed for a while, by a full disk or a call that does not end, is taken when the version has faults again.
    fn try_again(&mut self) {
        let desired = self.history.current().and_then(|entry| entry.desired());
        let policy = desired.map(|desired| desired.document.versions.clone());
        if let (Some(running), Some(policy)) = (&mut self.running, policy) {
            running.trial = Some(Trial::new(&policy, Instant::now()));
        }
    }

    /// Notes and tells a refusal; the same one is told once.
    pub(super) fn refuse(
        &mut self,
        refusal: &Refusal,
        candidate: Option<CandidateKey>,
        by_document: bool,
    ) {
        let told = refused(refusal, candidate, by_document);
        self.report_rejected(&told, self.refused.as_ref());
        self.refused = Some(Refused {
            told,
            for_good: None,
        });
    }

    /// `last`: what was refused before it.
    pub(super) fn report_rejected(&self, told: &RefusedVersion, last: Option<&Refused>) {
        let driver = self.parts.driver.name();
        let (reason, serves) = (&told.reason, self.running.is_some());
        if !serves {
            self.parts.driver.set_fault(reason.clone());
        }
        let is_new = last.map(|it| &it.told).is_none_or(|last| {
            (&last.digest, last.kind, &last.reason) != (&told.digest, told.kind, &told.reason)
        });
        if is_new {
            let kind = told.kind.as_str();
            if serves {
                tracing::warn!(%driver, kind, reason, serves, "version rejected");
            } else {
                tracing::error!(%driver, kind, reason, serves, "version rejected, and no other version serves");
            }
            self.shared.tell(KeeperEvent::Refused(told.clone()));
        }
    }
}

/// A refusal as it is told.
pub(super) fn refused(
    refusal: &Refusal,
    candidate: Option<CandidateKey>,
    by_document: bool,
) -> RefusedVersion {
    RefusedVersion {
        by_document,
        digest: candidate.map(|candidate| candidate.identity.digest),
        kind: refusal.kind(),
        reason: describe(refusal),
        at: SystemTime::now(),
    }
}

/// `wanted`: what the document means meanwhile.
pub(super) fn pin(wanted: &Desired) -> Hold {
    Hold {
        number: 0,
        by: HeldBy::Swap,
        reason: "an administrator swapped to it, without the document".to_owned(),
        since: SystemTime::now(),
        revision: Some(wish_digest(wanted)),
    }
}

fn answer(purpose: Purpose, attempted: Result<Outcome, Refusal>) {
    let reply: Option<Reply<Outcome>> = match purpose {
        Purpose::Swap { reply, .. } => Some(reply),
        Purpose::Back { reply, .. } => reply,
        Purpose::Converge | Purpose::Restore => None,
    };
    if let Some(reply) = reply {
        // It fails if nobody waits.
        let _ = reply.send(attempted);
    }
}

/// An error with all that is behind it, each thing once: as it stands in logs, statuses and Events.
pub(super) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    shortened(text, REASON_BYTES)
}
