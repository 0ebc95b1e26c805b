//! Records between two versions: what a swap or a way back has to do with them. Apart from the other steps of a commit because only here
//! calls must have ended, and because two stores change: the history says which version is to come before the records are written, and a mark
//! beside the records says whether they were.

use super::attempt::Ready;
use super::commit::{Coming, Commit};
use super::{KeeperParts, Migrates};
use crate::history::History;
use crate::migration::{Mark, Records};
use crate::refusal::Refusal;
use wasmount_core::migration::Migration;

/// What is to be done with the records.
pub(super) enum Step {
    /// The version that comes makes them its own.
    Forward {
        migration: Migration,
        from_version: String,
    },
    /// Those of the version that comes are put back.
    Back(Mark),
}

/// What a restart will find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// What the history says.
    History,
    /// The version that comes, whatever becomes of the history.
    Coming,
}

impl Commit<'_> {
    /// What is to be done before this version serves; none: nothing.
    pub(super) async fn records_step(
        &self,
        ready: &Ready,
        coming: &Coming,
    ) -> Result<Option<Step>, Refusal> {
        if self.parts.migrates == Migrates::AnotherProcess {
            return Ok(None);
        }
        match coming {
            Coming::New { .. } => {
                Ok(ready
                    .migration
                    .clone()
                    .map(|(migration, from_version)| Step::Forward {
                        migration,
                        from_version,
                    }))
            }
            Coming::Again => Ok(None),
            Coming::Back(hold) => {
                let marks = self.records().marks_above(hold.number).await?;
                match marks.as_slice() {
                    [] => Ok(None),
                    [mark] => Ok(Some(Step::Back(mark.clone()))),
                    [.., last] => Err(Refusal::Migration {
                        reason: format!(
                            "several versions since version {} rewrote them; go back to version {} first",
                            hold.number, last.before
                        ),
                    }),
                }
            }
        }
    }

    /// Does it. `next`: the history with the version that comes.
    pub(super) async fn change_records(
        &self,
        step: Step,
        ready: &Ready,
        next: &History,
        number: u64,
    ) -> Result<Found, Refusal> {
        let records = self.records();
        let limits = &ready.desired.document.limits;
        match step {
            Step::Forward {
                migration,
                from_version,
            } => {
                let changes = records
                    .changes(&ready.backend, &from_version, limits.time)
                    .await?;
                if migration != Migration::Rewriting {
                    let may = || self.parts.may_migrate();
                    records.add(changes, limits.state_bytes, may).await?;
                    return Ok(Found::History);
                }
                let before = self.history.current().map_or(0, |it| it.record.number);
                self.prepare(next).await?;
                let written = records.rewrite(changes, number, before, limits.state_bytes);
                self.or_unprepare(written.await).await?;
            }
            Step::Back(mark) => {
                if !records.is_untouched(&mark).await? {
                    return Err(Refusal::Written {
                        number,
                        since: mark.number,
                    });
                }
                self.prepare(next).await?;
                self.or_unprepare(records.put_back(&mark).await).await?;
            }
        }
        Ok(Found::Coming)
    }

    /// Other hosts that share the records know by it whose they are. Before the version serves: what it writes is never taken for another's.
    pub(super) async fn say_whose(&self, plugin_version: &str) -> Result<(), Refusal> {
        if self.parts.migrates != Migrates::TheElected || !self.parts.may_migrate() {
            return Ok(());
        }
        self.records().make_for(plugin_version).await
    }

    async fn prepare(&self, next: &History) -> Result<(), Refusal> {
        let prepared = self.history.preparing(next.clone());
        self.disk.write(&prepared).await.map(|_| ())
    }

    /// What was not written is not to come: a restart would see that by itself.
    async fn or_unprepare(&self, written: Result<(), Refusal>) -> Result<(), Refusal> {
        if written.is_err()
            && let Err(error) = self.disk.write(self.history).await
        {
            tracing::warn!(driver = %self.parts.driver.name(), %error, "the history still names a version that did not come");
        }
        written
    }

    fn records(&self) -> Records {
        Records::of(&self.parts.state, self.parts.driver.name())
    }
}

/// Forgets how to go back to versions that are not kept. Best effort: it is tried again after the next swap.
pub(super) async fn forget_marks(parts: &KeeperParts, history: &History) {
    if !parts.may_migrate() {
        return;
    }
    let driver = parts.driver.name();
    let is_kept = |number| {
        let entry = history.entry(number);
        entry.is_some_and(|entry| entry.record.is_kept)
    };
    if let Err(error) = Records::of(&parts.state, driver).forget(is_kept).await {
        tracing::warn!(%driver, %error, "notes of old migrations stay in the state store");
    }
}
