//! How an actor begins: with the history that the host before it left.

use super::{Actor, SETTLE};
use crate::disk::Disk;
use crate::history::History;
use crate::migration::Records;
use crate::reconciler::command::Command;
use crate::reconciler::{Migrates, ReconcilerParts};
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
                    self.resume_serving(&disk).await;
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
    async fn resume_serving(&mut self, disk: &Arc<Disk>) {
        self.enforce_drain();
        self.refusals = disk.refusals().await;
        self.report_rejections();
    }
}

/// A host that ended while records were changed left two histories; the records say which one it is. One that begins has no number in common
/// with what was noted beside the records before.
async fn settled(parts: &ReconcilerParts, history: History) -> Result<History, Refusal> {
    let records = Records::of(&parts.state, parts.driver.name());
    let history = one_of_two(parts, &records, history).await?;
    if history.is_empty() && parts.migrates == Migrates::ThisProcess {
        records.forget_numbers().await?;
    }
    Ok(history)
}

async fn one_of_two(
    parts: &ReconcilerParts,
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
        "the host ended during a migration: the version serves if the records were migrated"
    );
    Ok(history.settled(changed))
}
