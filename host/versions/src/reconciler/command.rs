//! Commands to the reconcile loop, and the faults that it is notified of.

use super::reconcile::ReconcileLoop;
use super::state::{Command, Goal, Reply};
use crate::desired::RollbackRequest;
use crate::events::{Outcome, VersionEvent};
use crate::history::History;
use crate::refusal::Refusal;
use jiff::Timestamp;
use tokio::time::Instant;
use wasmount_core::driver::VersionFault;
use wasmount_core::fault::Owner;
use wasmount_core::status::{Drained, HeldBy, now};

/// Precision of the last fault in the status. 10 s: whoever follows the status of a version that fails all the time need not write more often, and the
/// pause of a rollout is minutes.
const FAULT_SECONDS: i64 = 10;

impl ReconcileLoop {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Swap(request, reply) => {
                self.swaps.push_back((*request, reply));
                // An attempt without a command is dropped; the swap considers the same revision.
                if self.abandon_if(Goal::gives_way) {
                    // Checked again, whatever the outcome of the swap.
                    self.due = Some(Instant::now());
                }
            }
            Command::Rollback(request, reply) => self.rollback(request, reply).await,
            Command::Pause(paused, reply) => drop(reply.send(self.pause(paused).await)),
            Command::Drain(reason, reply) => drop(reply.send(self.drain(reason).await)),
            Command::TakeOver(may, reply) => drop(reply.send(self.take_over(may).await)),
            // Handled by the loop.
            Command::Stop => {}
        }
    }

    /// A rollback by command: of a share, or of the version that serves.
    async fn rollback(&mut self, request: RollbackRequest, reply: Reply<Outcome>) {
        let reason = "an administrator requested it".to_owned();
        let by = HeldBy::Rollback;
        let target = match self.history.ends_share(request) {
            Ok(true) => {
                self.overtake();
                let undone = self.undo_share(by, reason).await;
                self.publish();
                return drop(reply.send(undone));
            }
            Ok(false) => self.history.requested_target(request),
            Err(refusal) => Err(refusal),
        };
        match target {
            Ok(number) => self.roll_back(number, by, reason, Some(reply)),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    }

    /// A fault of the running version.
    pub(super) fn fault(&mut self, fault: VersionFault) {
        let is_plugins = fault.kind.owner() == Owner::Plugin;
        if is_plugins {
            self.note_fault();
        }
        let Some(running) = &mut self.running else {
            return;
        };
        let Some(trial) = running.trial.as_mut().filter(|_| is_plugins) else {
            return;
        };
        if !trial.fault(&fault) {
            return;
        }
        let number = running.number;
        let faults = trial.faults_until(fault.at);
        let reason = too_many_faults(number, faults, &fault);
        // The trial is over: there is a second one only if the rollback is not possible for a while.
        running.trial = None;
        let driver = self.parts.driver.name();
        match self.history.target(None, true) {
            Ok(target) => {
                tracing::error!(%driver, from = number, to = target, trigger = "faults", reason, "version rolled back");
                self.roll_back(target, HeldBy::Faults { failed: number }, reason, None);
            }
            Err(_) => {
                let reason = format!("{reason}; there is no proven version to roll back to");
                tracing::error!(%driver, reason, "the version remains active");
                let event = VersionEvent::CannotRollBack { number, reason };
                self.shared.notify(event);
            }
        }
    }

    /// Shows in the status when the running version failed.
    fn note_fault(&mut self) {
        let now = Timestamp::now().as_second();
        let rounded = now - now.rem_euclid(FAULT_SECONDS) + FAULT_SECONDS;
        let rounded = Timestamp::from_second(rounded).ok();
        if let Some(running) = &mut self.running
            && running.last_fault != rounded
        {
            running.last_fault = rounded;
            self.publish();
        }
    }

    /// Drops the attempt under way and the waiting swaps, which were requested without knowledge of a rollback.
    fn overtake(&mut self) {
        let dropped = self.abandon().and_then(|work| work.reply);
        let swaps = self.swaps.drain(..).map(|(_, reply)| reply);
        for reply in dropped.into_iter().chain(swaps) {
            let _ = reply.send(Err(Refusal::Overtaken));
        }
    }

    /// Does not wait.
    fn roll_back(
        &mut self,
        number: u64,
        by: HeldBy,
        reason: String,
        reply: Option<Reply<Outcome>>,
    ) {
        self.overtake();
        let hold = self.hold(number, by, &reason);
        let entry = self.history.entry(number).and_then(|entry| entry.desired());
        // `target` returns kept versions only.
        if let Some(desired) = entry.cloned() {
            self.start(Goal::RollBack(hold), desired, reply);
        }
    }

    /// None: it accepts work again. It lasts across restarts. It runs in the loop, so that what is in force is what is on disk.
    async fn drain(&mut self, reason: Option<String>) -> Result<(), Refusal> {
        let before = self.history.drained.as_ref();
        if before.map(|drained| &drained.reason) == reason.as_ref() {
            return Ok(());
        }
        let since = before.map_or_else(now, |drained| drained.since);
        let mut history = self.history.clone();
        history.drained = reason.map(|reason| Drained { reason, since });
        self.record(history).await?;
        self.enforce_drain();
        Ok(())
    }

    /// Makes the driver accept or reject new work, as the history says.
    pub(super) fn enforce_drain(&self) {
        let drained = self.history.drained.as_ref();
        let reason = drained.map(|drained| drained.reason.clone());
        self.parts.driver.set_drained(reason);
    }

    async fn pause(&mut self, paused: bool) -> Result<(), Refusal> {
        if self.history.paused == paused {
            return Ok(());
        }
        let mut history = self.history.clone();
        history.paused = paused;
        self.record(history).await?;
        if paused && self.abandon_if(|goal| matches!(goal, Goal::Converge)) {
            // The next attempt may be far off.
            self.clean_up().await;
        }
        self.due = Some(Instant::now());
        Ok(())
    }

    /// Takes effect when it is on disk.
    pub(super) async fn record(&mut self, history: History) -> Result<(), Refusal> {
        self.disk.write(&history).await?;
        self.history = history;
        Ok(())
    }
}

/// Why a version is rolled back.
pub(super) fn too_many_faults(number: u64, faults: usize, last: &VersionFault) -> String {
    format!(
        "version {number} had {faults} faults within its first calls, the last one in {}: {}",
        last.rpc,
        last.kind.as_str()
    )
}
