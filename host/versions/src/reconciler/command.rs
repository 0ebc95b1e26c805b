//! What is asked of the reconcile loop, and the faults that it is notified of.

use super::reconcile::ReconcileLoop;
use super::state::{Command, Goal, Reply};
use crate::history::{History, desired_digest};
use crate::record::{Drained, HeldBy, Hold};
use crate::refusal::Refusal;
use crate::status::{Outcome, VersionEvent};
use std::time::SystemTime;
use tokio::time::Instant;
use wasmount_core::driver::VersionFault;
use wasmount_core::fault::Owner;

impl ReconcileLoop {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Swap(request, reply) => {
                self.swaps.push_back((*request, reply));
                // What goes on by itself gives way; the swap looks at the same.
                if self.abandon_if(Goal::gives_way) {
                    // To be looked at again, whatever comes of the swap.
                    self.due = Some(Instant::now());
                }
            }
            Command::Rollback(request, reply) => match self.history.asked_back(request) {
                Ok(number) => {
                    let reason = "an administrator asked for it".to_owned();
                    self.roll_back(number, HeldBy::Rollback, reason, Some(reply));
                }
                Err(refusal) => drop(reply.send(Err(refusal))),
            },
            Command::Pause(paused, reply) => drop(reply.send(self.pause(paused).await)),
            Command::Drain(reason, reply) => drop(reply.send(self.drain(reason).await)),
            Command::TakeOver(may, reply) => drop(reply.send(self.take_over(may).await)),
            // The loop's.
            Command::Stop => {}
        }
    }

    /// A fault of the running version.
    pub(super) fn fault(&mut self, fault: VersionFault) {
        let Some(running) = &mut self.running else {
            return;
        };
        let is_plugins = fault.kind.owner() == Owner::Plugin;
        let Some(trial) = running.trial.as_mut().filter(|_| is_plugins) else {
            return;
        };
        if !trial.fault(&fault) {
            return;
        }
        let number = running.number;
        let faults = trial.faults_until(fault.at);
        let reason = format!(
            "version {number} had {faults} faults within its first calls, the last one in {}: {}",
            fault.rpc,
            fault.kind.as_str()
        );
        // The trial is over: there is a second one only if the rollback is closed for a while.
        running.trial = None;
        let driver = self.parts.driver.name();
        match self.history.target(None, true) {
            Ok(target) => {
                tracing::error!(%driver, reason, target, "version rolled back");
                self.roll_back(target, HeldBy::Faults { failed: number }, reason, None);
            }
            Err(_) => {
                let reason = format!("{reason}; there is no proven version to go back to");
                tracing::error!(%driver, reason, "the version remains active");
                let event = VersionEvent::CannotRollBack { number, reason };
                self.shared.tell(event);
            }
        }
    }

    /// Waits for nothing: what is under way is dropped, and so are the swaps that wait, which were asked for without knowledge of this.
    fn roll_back(
        &mut self,
        number: u64,
        by: HeldBy,
        reason: String,
        reply: Option<Reply<Outcome>>,
    ) {
        let dropped = self.abandon().and_then(|work| work.reply);
        let swaps = self.swaps.drain(..).map(|(_, reply)| reply);
        for reply in dropped.into_iter().chain(swaps) {
            let _ = reply.send(Err(Refusal::Overtaken));
        }
        let hold = Hold {
            number,
            by,
            reason,
            since: SystemTime::now(),
            revision: Some(desired_digest(&self.desired)),
        };
        let entry = self.history.entry(number).and_then(|entry| entry.desired());
        match (entry.cloned(), reply) {
            (Some(desired), reply) => self.start(Goal::RollBack(hold), desired, reply),
            // `target` gives kept ones only.
            (None, Some(reply)) => drop(reply.send(Err(Refusal::Overtaken))),
            (None, None) => {}
        }
    }

    /// None: it takes work again. It lasts across restarts. In the loop, one after the other, so that what is in force is what is written down.
    async fn drain(&mut self, reason: Option<String>) -> Result<(), Refusal> {
        let before = self.history.drained.as_ref();
        if before.map(|drained| &drained.reason) == reason.as_ref() {
            return Ok(());
        }
        let since = before.map_or_else(SystemTime::now, |drained| drained.since);
        let mut history = self.history.clone();
        history.drained = reason.map(|reason| Drained { reason, since });
        self.record(history).await?;
        self.enforce_drain();
        Ok(())
    }

    /// Has the driver take new work, or refuse it, as the history says.
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
            // There may be no next attempt for long.
            self.clean_up().await;
        }
        self.due = Some(Instant::now());
        Ok(())
    }

    /// Counts as soon as it is on disk.
    pub(super) async fn record(&mut self, history: History) -> Result<(), Refusal> {
        self.disk.write(&history).await?;
        self.history = history;
        Ok(())
    }
}
