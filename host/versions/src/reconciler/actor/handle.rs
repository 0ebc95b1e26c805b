//! What is asked of the actor, and the faults that it hears of.

use super::{Actor, Purpose, earlier, overtaken};
use crate::desired::RollbackRequest;
use crate::disk::Disk;
use crate::history::wish_digest;
use crate::reconciler::command::{Command, Reply};
use crate::record::{Drained, HeldBy, Hold};
use crate::refusal::Refusal;
use crate::status::{KeeperEvent, Outcome};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::Instant;
use wasmount_core::driver::VersionFault;
use wasmount_core::fault::Owner;

impl Actor {
    pub(super) async fn command(&mut self, command: Command, disk: &Arc<Disk>) {
        match command {
            Command::Swap(request, reply) => {
                self.swaps.push_back((*request, reply));
                // What goes on by itself gives way; the swap looks at the same.
                self.yield_to_desired();
            }
            Command::Rollback(request, reply) => self.roll_back(request, reply, disk),
            Command::Pause(paused, reply) => {
                let paused = self.pause(paused, disk).await;
                // It fails if nobody waits.
                let _ = reply.send(paused);
            }
            Command::Drain(reason, reply) => {
                let drained = self.drain(reason, disk).await;
                let _ = reply.send(drained);
            }
            Command::TakeOver(may, reply) => {
                let taken = self.take_over(may).await;
                let _ = reply.send(taken);
            }
            // The loop's.
            Command::Stop => {}
        }
    }

    /// A fault of the running version.
    pub(super) fn fault(&mut self, fault: VersionFault, disk: &Arc<Disk>) {
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
        match self.history.target(None, true) {
            Ok(target) => {
                tracing::error!(driver = %self.parts.driver.name(), reason, target, "version rolled back");
                let hold = Hold {
                    number: target,
                    by: HeldBy::Faults { failed: number },
                    reason,
                    since: SystemTime::now(),
                    revision: Some(wish_digest(&self.desired)),
                };
                self.roll_back_to(hold, None, disk);
            }
            Err(_) => {
                let reason = format!("{reason}; there is no proven version to go back to");
                tracing::error!(driver = %self.parts.driver.name(), reason, "the version remains active");
                self.shared
                    .tell(KeeperEvent::CannotRollBack { number, reason });
            }
        }
    }

    fn roll_back(&mut self, request: RollbackRequest, reply: Reply<Outcome>, disk: &Arc<Disk>) {
        match self.history.asked_back(request) {
            Ok(number) => {
                let hold = Hold {
                    number,
                    by: HeldBy::Rollback,
                    reason: "an administrator asked for it".to_owned(),
                    since: SystemTime::now(),
                    revision: Some(wish_digest(&self.desired)),
                };
                self.roll_back_to(hold, Some(reply), disk);
            }
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
            }
        }
    }

    /// Waits for nobody: what is under way is dropped, and so is what was to come after it: nobody who asked for that knew of this.
    fn roll_back_to(&mut self, hold: Hold, reply: Option<Reply<Outcome>>, disk: &Arc<Disk>) {
        if let Some(purpose) = self.abandon() {
            overtaken(purpose);
        }
        for (request, reply) in self.swaps.drain(..) {
            let pinned = request.desired.is_some();
            overtaken(Purpose::Swap { pinned, reply });
        }
        let entry = self.history.entry(hold.number);
        let goal = entry.and_then(|entry| Some((entry.desired()?.clone(), earlier(entry))));
        match goal {
            Some((desired, goal)) => {
                self.start(Purpose::Back { hold, reply }, desired, goal, disk);
            }
            // `target` gives kept ones only.
            None => overtaken(Purpose::Back { hold, reply }),
        }
    }

    fn yield_to_desired(&mut self) {
        let gives_way = |purpose: &Purpose| matches!(purpose, Purpose::Converge | Purpose::Restore);
        if self
            .work
            .as_ref()
            .is_some_and(|work| gives_way(&work.purpose))
        {
            self.abandon();
            // To be looked at again, whatever comes of the swap.
            self.due = Some(Instant::now());
        }
    }

    /// None: it takes work again. It lasts across restarts. Here alone, one after the other, so that what is in force is what is written down.
    async fn drain(&mut self, reason: Option<String>, disk: &Arc<Disk>) -> Result<(), Refusal> {
        let before = self.history.drained.as_ref();
        if before.map(|drained| &drained.reason) == reason.as_ref() {
            return Ok(());
        }
        let since = before.map_or_else(SystemTime::now, |drained| drained.since);
        let mut history = self.history.clone();
        history.drained = reason.map(|reason| Drained { reason, since });
        disk.write(&history).await?;
        self.history = history;
        self.enforce_drain();
        Ok(())
    }

    /// Has the driver take new work, or refuse it, as the history says.
    pub(super) fn enforce_drain(&self) {
        let drained = self.history.drained.as_ref();
        let reason = drained.map(|drained| drained.reason.clone());
        self.parts.driver.set_drained(reason);
    }

    async fn pause(&mut self, paused: bool, disk: &Arc<Disk>) -> Result<(), Refusal> {
        if self.history.paused == paused {
            return Ok(());
        }
        let mut history = self.history.clone();
        history.paused = paused;
        disk.write(&history).await?;
        self.history = history;
        let converges = |purpose: &Purpose| matches!(purpose, Purpose::Converge);
        if paused
            && self
                .work
                .as_ref()
                .is_some_and(|work| converges(&work.purpose))
        {
            self.abandon();
            // There may be no next attempt for long.
            self.clean_up(disk).await;
        }
        self.due = Some(Instant::now());
        Ok(())
    }
}
