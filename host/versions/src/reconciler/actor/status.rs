//! What an actor tells of itself.

use super::Actor;
use crate::record::HeldBy;
use crate::status::{Phase, ReconcilerStatus};
use std::sync::PoisonError;

impl Actor {
    pub(super) fn publish(&self) {
        let status = self.status();
        let is_new = *self.shared.status.borrow() != status;
        {
            let history = self.shared.history.lock();
            let mut history = history.unwrap_or_else(PoisonError::into_inner);
            // First, so that who is woken by the status finds it so.
            if is_new || history.is_empty() {
                *history = self.history.clone();
            }
        }
        if is_new {
            self.shared.status.send_replace(status);
        }
    }

    fn status(&self) -> ReconcilerStatus {
        let running = self.running.as_ref();
        let mut warnings = running.map(|it| it.warnings.clone()).unwrap_or_default();
        if let Some(running) = running {
            let doubts = running.doubts.lock();
            warnings.extend(doubts.unwrap_or_else(PoisonError::into_inner).clone());
        }
        ReconcilerStatus {
            phase: self.phase(),
            current: running
                .and_then(|it| self.history.entry(it.number))
                .map(|entry| entry.record.clone()),
            warnings,
            refused: self.last_refused().map(|it| it.told.clone()),
            draining: self.shared.draining(),
            held: self.history.held.clone(),
            paused: self.history.paused,
            drained: self.history.drained.clone(),
            wanted: self.revision,
            settled: self.settled,
        }
    }

    fn phase(&self) -> Phase {
        let held_by = self.history.held.as_ref().map(|held| &held.by);
        if self.history.drained.is_some() {
            Phase::Draining
        } else if self.running.is_none() {
            match self.last_refused() {
                Some(_) => Phase::Waiting,
                None => Phase::Loading,
            }
        } else if matches!(held_by, Some(HeldBy::Rollback | HeldBy::Faults { .. })) {
            Phase::RolledBack
        } else if self.history.paused {
            Phase::Paused
        } else {
            Phase::Serving
        }
    }
}
