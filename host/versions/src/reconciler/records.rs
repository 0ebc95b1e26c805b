//! Records between two versions: what a swap or a way back has to do with them. The history says which version is to come before the records are
//! written, and a mark beside the records says whether they were.

use super::candidate::{Coming, Found, Ready, Step};
use super::commit::Commit;
use super::migration_plan::{allowed, owner_version, plan};
use super::{Migrates, ReconcilerParts};
use crate::history::History;
use crate::migration::{Mark, Records};
use crate::refusal::Refusal;
use wasmount_core::backend::Backend;
use wasmount_core::migration::Migration;

impl Step {
    fn forward((migration, from_version): (Migration, String)) -> Self {
        Self::Forward {
            migration,
            from_version,
        }
    }
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
            Coming::New { .. } => Ok(ready.migration.clone().map(Step::forward)),
            Coming::Again => self.again(ready).await,
            Coming::Back(hold) => self.way_back(ready, hold.number).await,
        }
    }

    /// Who is alone with the records left them so. Of several hosts another one may have worked since: who is elected before anything serves here
    /// looks at them now, and who stands by when its turn comes.
    async fn again(&self, ready: &Ready) -> Result<Option<Step>, Refusal> {
        if self.parts.migrates != Migrates::TheElected || !self.parts.may_migrate() {
            return Ok(None);
        }
        let made_for = self.records().made_for().await?;
        let time = ready.desired.document.limits.time;
        let planned = plan(&ready.backend, made_for, time).await?;
        Ok(planned.map(Step::forward))
    }

    /// Between what is there and a version that served before: either what was rewritten since is put back, or that version is asked, as any
    /// version is that comes.
    async fn way_back(&self, ready: &Ready, number: u64) -> Result<Option<Step>, Refusal> {
        let marks = self.records().marks_above(number).await?;
        let reason = match marks.as_slice() {
            [] => return self.unmarked_way_back(ready, number).await,
            [mark] if self.reads_those_before(mark, ready, number).await => {
                return Ok(Some(Step::Back(mark.clone())));
            }
            [Mark { before, .. }] => format!(
                "what can be put back is of version {before}, in another form than that of version {number}; {}",
                self.instead(*before)
            ),
            [.., Mark { before, .. }] => format!(
                "several versions since version {number} rewrote them; {}",
                self.instead(*before)
            ),
        };
        Err(Refusal::Migration { reason })
    }

    /// What to do where the rollback leads over another version.
    fn instead(&self, over: u64) -> String {
        let entry = self.history.entry(over);
        if entry.is_some_and(|entry| entry.record.is_kept) {
            format!("go back to version {over} first")
        } else {
            "go forward with a mended version instead".to_owned()
        }
    }

    /// Whether a version can work with what a migration replaced.
    async fn reads_those_before(&self, mark: &Mark, ready: &Ready, number: u64) -> bool {
        if mark.before == number {
            return true;
        }
        let Some(before) = self.history.entry(mark.before) else {
            return false;
        };
        let from = Some(before.record.plugin_version.clone());
        let time = ready.desired.document.limits.time;
        matches!(plan(&ready.backend, from, time).await, Ok(None))
    }

    async fn unmarked_way_back(&self, ready: &Ready, number: u64) -> Result<Option<Step>, Refusal> {
        let current = self.history.current().map(|it| &it.record);
        let own = current.map(|record| record.plugin_version.clone());
        let from = owner_version(self.parts, own).await?;
        let time = ready.desired.document.limits.time;
        let newest = current.map_or(0, |record| record.number);
        let planned = match plan(&ready.backend, from.clone(), time).await {
            // Marks are in the order of versions: what an older one rewrites could never be put back.
            Ok(Some((Migration::Rewriting, _))) if number < newest => Err(Refusal::Migration {
                reason: format!(
                    "version {number} would rewrite them, which only a version does that comes anew: swap to it instead"
                ),
            }),
            planned => planned,
        };
        match planned {
            Ok(planned) => Ok(allowed(self.parts, planned)?.map(Step::forward)),
            // Who made it could not know what comes; who made the one that serves could.
            Err(_) if self.only_added(ready, from).await => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether the version that serves says that this one can work with its records.
    async fn only_added(&self, ready: &Ready, records_of: Option<String>) -> bool {
        let Some(running) = self.running else {
            return false;
        };
        let backend = &running.backend;
        let from = Some(ready.backend.label().version.clone());
        let time = ready.desired.document.limits.time;
        records_of.as_ref() == Some(&backend.label().version)
            && matches!(
                plan(backend, from, time).await,
                Ok(Some((Migration::Additive, _)))
            )
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
                let put_back = records.put_back(&mark, number).await;
                self.or_unprepare(put_back).await?;
            }
        }
        Ok(Found::Coming)
    }

    /// Other hosts that share the records know by it whose they are. Before the version serves: what it writes is never taken for another's.
    pub(super) async fn record_owner_version(&self, plugin_version: &str) -> Result<(), Refusal> {
        if self.parts.migrates != Migrates::TheElected || !self.parts.may_migrate() {
            return Ok(());
        }
        self.records().make_for(plugin_version).await
    }

    /// The same of a host that is alone with them, for the day on which its history is lost. It is no reason to refuse a version: the history says
    /// it too, and the next start tries again.
    pub(super) async fn note_whose(&self, plugin_version: &str, migrated: bool) {
        if self.parts.migrates != Migrates::ThisProcess {
            return;
        }
        let records = self.records();
        let noted = if migrated {
            records.make_for(plugin_version).await
        } else {
            records.note_maker(plugin_version).await
        };
        if let Err(error) = noted {
            tracing::warn!(
                driver = %self.parts.driver.name(),
                %error,
                "the owner version of the records is recorded in the history only"
            );
        }
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
            tracing::warn!(driver = %self.parts.driver.name(), %error, "the history names a version that was not activated");
        }
        written
    }

    fn records(&self) -> Records {
        Records::of(&self.parts.state, self.parts.driver.name())
    }
}

/// Forgets how to go back further than to the oldest version that is kept. Best effort: it is tried again after the next swap.
pub(super) async fn forget_marks(parts: &ReconcilerParts, history: &History) {
    if !parts.may_migrate() {
        return;
    }
    let driver = parts.driver.name();
    let Some(oldest) = history.oldest_kept() else {
        return;
    };
    let records = Records::of(&parts.state, driver);
    if let Err(error) = records.forget_up_to(oldest).await {
        tracing::warn!(%driver, %error, "migration notes remain in the state store");
    }
}
