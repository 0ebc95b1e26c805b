//! The status that the loop publishes.

use super::reconcile::ReconcileLoop;
use wasmount_core::status::{DriverStatus, HeldBy, Phase};

impl ReconcileLoop {
    pub(super) fn publish(&self) {
        let status = self.status();
        let is_new = *self.shared.status.borrow() != status;
        // First, so that a client that the status wakes sees the new history.
        if is_new || self.shared.history.borrow().is_empty() {
            self.shared.history.send_replace(self.history.clone());
        }
        if is_new {
            self.shared.status.send_replace(status);
        }
    }

    fn status(&self) -> DriverStatus {
        let running = self.running.as_ref();
        let entry = running.and_then(|it| self.history.entry(it.number));
        let warnings = running.map(|it| [&it.warnings[..], &it.doubts].concat());
        DriverStatus {
            phase: self.phase(),
            version: entry.map(|entry| entry.record.clone()),
            warnings: warnings.unwrap_or_default(),
            refused: self.last_refused().map(|it| it.version.clone()),
            draining: self.shared.draining(),
            held: self.history.held.clone(),
            paused: self.history.paused,
            drained: self.history.drained.clone(),
            share: self.history.share().cloned(),
            last_fault: running.and_then(|it| it.last_fault),
            desired: self.revision,
            settled: self.settled,
        }
    }

    fn phase(&self) -> Phase {
        let hold_cause = self.history.held.as_ref().map(|hold| &hold.by);
        if self.history.drained.is_some() {
            Phase::Draining
        } else if self.running.is_none() {
            match self.last_refused() {
                Some(_) => Phase::Waiting,
                None => Phase::Loading,
            }
        } else if matches!(hold_cause, Some(HeldBy::Rollback | HeldBy::Faults { .. })) {
            Phase::RolledBack
        } else if self.history.paused {
            Phase::Paused
        } else {
            Phase::Serving
        }
    }
}
