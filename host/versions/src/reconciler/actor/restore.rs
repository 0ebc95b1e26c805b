//! Bringing back what served when the host ended. They are tried in turn, the version first: what keeps the one from serving need not concern the
//! other.

use super::outcome::refused;
use super::{Actor, Purpose, Refused, earlier};
use crate::disk::Disk;
use crate::reconciler::candidate::CandidateKey;
use crate::reconciler::retry::Retry;
use crate::refusal::{Patience, Refusal};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A version that served when the host ended and does not serve again yet.
#[derive(Default)]
pub(super) struct Restore {
    /// It was tried: the document has its turn, if it is followed.
    is_tried: bool,
    /// It would be refused again whenever it was tried.
    is_judged: bool,
    retry: Retry,
    /// How long it waits for its next turn; none: until something changes.
    pause: Option<Duration>,
    refused: Option<Refused>,
}

impl Actor {
    /// Whether what served comes before what is wanted.
    pub(super) fn is_turn_of_version(&self) -> bool {
        let follows = self.history.follows(&self.desired);
        let restores = self.restores.as_ref();
        restores.is_some_and(|restore| !restore.is_tried || !follows)
    }

    pub(super) fn begin_restore(&mut self, disk: &Arc<Disk>) {
        self.due = None;
        let entry = self.history.current();
        let goal = entry.and_then(|entry| Some((entry.desired()?.clone(), earlier(entry))));
        match goal {
            Some((desired, goal)) => self.start(Purpose::Restore, desired, goal, disk),
            None => {
                self.restores = None;
                self.due = Some(Instant::now());
            }
        }
    }

    /// Whether the document means what served, and nothing has come since: it keeps its number.
    pub(super) fn is_what_served(&self, purpose: &Purpose, candidate: &CandidateKey) -> bool {
        let served = self.history.current().filter(|_| self.running.is_none());
        matches!(purpose, Purpose::Converge)
            && served.is_some_and(|entry| {
                let secrets = self.history.secrets_of(entry.record.number);
                entry.identity() == candidate.identity
                    && secrets == Some(candidate.secrets.as_str())
            })
    }

    pub(super) fn not_restored(
        &mut self,
        refusal: &Refusal,
        candidate: Option<CandidateKey>,
        revision: u64,
    ) {
        let Some(mut restore) = self.restores.take() else {
            return;
        };
        let patience = refusal.patience();
        restore.is_tried = true;
        restore.is_judged = patience == Patience::None;
        restore.pause = restore.retry.refused(patience);
        let told = refused(refusal, candidate.clone(), true);
        self.report_rejected(&told, restore.refused.as_ref());
        restore.refused = Some(Refused {
            told,
            for_good: candidate.filter(|_| restore.pause.is_none()),
        });
        if self.history.follows(&self.desired) {
            self.due = Some(Instant::now());
        } else {
            self.settled = revision;
            self.due = restore.pause.map(|pause| Instant::now() + pause);
        }
        self.restores = Some(restore);
    }

    /// What is wanted may not serve either: the version is next, unless it never will.
    pub(super) fn document_had_its_turn(&mut self) {
        let Some(restore) = &mut self.restores else {
            return;
        };
        restore.is_tried = restore.is_judged;
        let next = restore.pause.map(|pause| Instant::now() + pause);
        self.due = [self.due, next].into_iter().flatten().min();
    }

    /// What was refused last; what became of the document counts more.
    pub(super) fn last_refused(&self) -> Option<&Refused> {
        let of_version = self.restores.as_ref().and_then(|it| it.refused.as_ref());
        self.refused.as_ref().or(of_version)
    }

    /// What is not tried again.
    pub(super) fn refused_for_good(&self) -> Option<CandidateKey> {
        let of_version = self.restores.as_ref().and_then(|it| it.refused.as_ref());
        let mut refused = [self.refused.as_ref(), of_version].into_iter().flatten();
        refused.find_map(|refused| refused.for_good.clone())
    }
}
