//! How an actor begins: with the history that the host before it left. Apart because until it is there nothing can be asked of it.

use super::{Actor, SETTLE};
use crate::disk::Disk;
use crate::history::History;
use crate::migration::Records;
use crate::reconciler::command::Command;
use crate::reconciler::{KeeperParts, Migrates};
use crate::refusal::Refusal;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

impl Actor {
    /// The history, as soon as the disk gives it. None: it was stopped before.
    pub(super) async fn open(&mut self) -> Option<Arc<Disk>> {
        loop {
            let opened = match Disk::open(self.parts.directory.clone()).await {
                Ok((disk, history)) => settled(&self.parts, history)
                    .await
                    .map(|history| (disk, history)),
                Err(refusal) => Err(refusal),
            };
            let refusal = match opened {
                Ok((disk, history)) => {
                    self.history = history;
                    self.go_on_as_before(&disk).await;
                    return Some(disk);
                }
                Err(refusal) => refusal,
            };
            let pause = self.retry.refused(refusal.patience()).unwrap_or(SETTLE);
            self.refuse(&refusal, None, true);
            self.publish();
            let until = Instant::now() + pause;
            loop {
                tokio::select! {
                    command = self.commands.recv() => match command {
                        None | Some(Command::Stop) => return None,
                        // Its asker is told that nothing came of it.
                        Some(command) => drop(command),
                    },
                    () = sleep_until(until) => break,
                }
            }
        }
    }

    /// What an administrator has decided, before the first call finds a plugin; and what was refused.
    async fn go_on_as_before(&mut self, disk: &Arc<Disk>) {
        self.enforce_drain();
        self.refusals = disk.refusals().await;
        self.tell_refusals();
    }
}

/// A host that ended while records were changed left two histories; the records say which one it is. One that begins has no number in common
/// with what was noted beside the records before.
async fn settled(parts: &KeeperParts, history: History) -> Result<History, Refusal> {
    let records = Records::of(&parts.state, parts.driver.name());
    let history = one_of_two(parts, &records, history).await?;
    if history.is_empty() && parts.migrates == Migrates::ThisProcess {
        records.forget_numbers().await?;
    }
    Ok(history)
}

async fn one_of_two(
    parts: &KeeperParts,
    records: &Records,
    history: History,
) -> Result<History, Refusal> {
    let Some(coming) = history.prepared() else {
        return Ok(history);
    };
    let changed = records.form().await? == Some(coming);
    tracing::warn!(
        driver = %parts.driver.name(),
        version = coming,
        changed,
        "the host ended while the records were changed for a version: it serves if they were"
    );
    Ok(history.settled(changed))
}
