//! Migrates records during a swap or a rollback. The history names the next version before the records are written, and a mark beside the records
//! says whether they were.

use super::reconcile::ReconcileLoop;
use super::state::{Attempt, Forward, RecordsStep};
use super::{Migrates, ReconcilerParts};
use crate::admission::call_at_admission;
use crate::history::History;
use crate::migration::{Mark, Records};
use crate::refusal::Refusal;
use std::time::Duration;
use wasmount_core::backend::Backend;
use wasmount_core::document::Limits;
use wasmount_core::migration::Migration;
use wasmount_core::rpc::Rpc;
use wasmount_engine::WasmBackend;

impl ReconcilerParts {
    fn records(&self) -> Records {
        Records::of(&self.state, self.driver.name())
    }

    /// Whether this process may change records now.
    fn may_migrate(&self) -> bool {
        match self.migrates {
            Migrates::AnotherProcess => false,
            Migrates::ThisProcess => true,
            Migrates::TheElected => self.driver.works(),
        }
    }

    /// A standby waits for the elected host.
    fn allowed(&self, step: Option<RecordsStep>) -> Result<Option<RecordsStep>, Refusal> {
        if step.is_some() && !self.may_migrate() {
            return Err(Refusal::NotElected);
        }
        Ok(step)
    }
}

/// What a version makes of the records of another one; none: nothing changes.
pub(super) async fn plan(
    backend: &WasmBackend,
    records_of: Option<String>,
    time: Duration,
) -> Result<Option<Forward>, Refusal> {
    let Some(from) = records_of.filter(|from| *from != backend.label().version) else {
        return Ok(None);
    };
    let call = call_at_admission(Rpc::GetPluginInfo, time);
    match backend.plan_migration(&call, &from).await {
        Ok(Migration::Unneeded) => Ok(None),
        Ok(migration) => Ok(Some(Forward {
            migration,
            from_version: from,
        })),
        Err(error) => Err(Refusal::Migration(error.to_string())),
    }
}

impl Attempt {
    pub(super) fn time(&self) -> Duration {
        self.desired.document.limits.time
    }

    /// The version of the plugin that wrote the records. Where several hosts share them, the note beside them is used, not what has served here;
    /// otherwise it is read if the history does not know.
    pub(super) async fn records_owner(&self) -> Result<Option<String>, Refusal> {
        let current = self.history.current();
        let own = current.map(|entry| entry.record.plugin_version.clone());
        match (self.parts.migrates, own) {
            (Migrates::AnotherProcess, _) => Ok(None),
            (Migrates::ThisProcess, Some(own)) => Ok(Some(own)),
            (Migrates::ThisProcess, None) => self.parts.records().made_for().await,
            (Migrates::TheElected, own) => Ok(self.parts.records().made_for().await?.or(own)),
        }
    }

    /// For a new version.
    pub(super) async fn step_forward(
        &self,
        backend: &WasmBackend,
        records_of: Option<String>,
    ) -> Result<Option<RecordsStep>, Refusal> {
        let planned = plan(backend, records_of, self.time()).await?;
        self.parts.allowed(planned.map(RecordsStep::Forward))
    }

    /// For the version that served when the host ended. A host that does not share its records left them so. Of several hosts another one may have
    /// acted since: the elected host checks them now, a standby when it is elected.
    pub(super) async fn step_again(
        &self,
        backend: &WasmBackend,
    ) -> Result<Option<RecordsStep>, Refusal> {
        if self.parts.migrates != Migrates::TheElected || !self.parts.may_migrate() {
            return Ok(None);
        }
        let made_for = self.parts.records().made_for().await?;
        let planned = plan(backend, made_for, self.time()).await?;
        Ok(planned.map(RecordsStep::Forward))
    }

    /// For a version that served before: either what was rewritten since is restored, or that version is asked to migrate, as any new version is.
    pub(super) async fn step_back(
        &self,
        backend: &WasmBackend,
        number: u64,
    ) -> Result<Option<RecordsStep>, Refusal> {
        if self.parts.migrates == Migrates::AnotherProcess {
            return Ok(None);
        }
        let marks = self.parts.records().marks_above(number).await?;
        let reason = match marks.as_slice() {
            [] => return self.step_back_unmarked(backend, number).await,
            [mark] if self.reads_those_before(mark, backend, number).await => {
                return Ok(Some(RecordsStep::Back(mark.clone())));
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
        Err(Refusal::Migration(reason))
    }

    /// What the administrator can do if the rollback crosses another version.
    fn instead(&self, over: u64) -> String {
        let entry = self.history.entry(over);
        if entry.is_some_and(|entry| entry.record.is_kept) {
            format!("roll back to version {over} first")
        } else {
            "swap to a corrected version instead".to_owned()
        }
    }

    /// Whether a version can read what a migration replaced.
    async fn reads_those_before(&self, mark: &Mark, backend: &WasmBackend, number: u64) -> bool {
        if mark.before == number {
            return true;
        }
        let Some(before) = self.history.entry(mark.before) else {
            return false;
        };
        let from = Some(before.record.plugin_version.clone());
        matches!(plan(backend, from, self.time()).await, Ok(None))
    }

    async fn step_back_unmarked(
        &self,
        backend: &WasmBackend,
        number: u64,
    ) -> Result<Option<RecordsStep>, Refusal> {
        let from = self.records_owner().await?;
        let newest = self.history.current_number();
        let planned = match plan(backend, from.clone(), self.time()).await {
            // Marks are in the order of versions: what an older version rewrites could never be restored.
            Ok(Some(it)) if it.migration == Migration::Rewriting && number < newest => {
                Err(Refusal::Migration(format!(
                    "version {number} would rewrite them, which is possible in a swap only: swap to it instead"
                )))
            }
            planned => planned,
        };
        match planned {
            Ok(planned) => self.parts.allowed(planned.map(RecordsStep::Forward)),
            // The author of an older version could not know later formats; the author of the running one could.
            Err(_) if self.only_added(backend, from).await => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether the running version declares that an earlier one can read its records.
    async fn only_added(&self, earlier: &WasmBackend, records_of: Option<String>) -> bool {
        let Some(serving) = &self.serving else {
            return false;
        };
        let from = Some(earlier.label().version.clone());
        records_of.as_ref() == Some(&serving.backend.label().version)
            && matches!(
                plan(&serving.backend, from, self.time()).await,
                Ok(Some(it)) if it.migration == Migration::Additive
            )
    }
}

impl ReconcileLoop {
    /// Migrates the records for a version, before it serves. `next`: the history with that version. True: a restart finds the new version, whatever
    /// happens to the history.
    pub(super) async fn change_records(
        &mut self,
        step: Option<RecordsStep>,
        backend: &WasmBackend,
        limits: &Limits,
        next: &History,
    ) -> Result<bool, Refusal> {
        let records = self.parts.records();
        let number = next.current_number();
        let is_rewritten = match step {
            None => false,
            Some(RecordsStep::Forward(Forward {
                migration,
                from_version,
            })) => {
                let changes = records.changes(backend, &from_version, limits.time).await?;
                if migration == Migration::Rewriting {
                    let before = self.history.current_number();
                    self.prepare(next).await?;
                    let written = records.rewrite(changes, number, before, limits.state_bytes);
                    self.or_unprepare(written.await).await?;
                    true
                } else {
                    let may = || self.parts.may_migrate();
                    records.add(changes, limits.state_bytes, may).await?;
                    false
                }
            }
            Some(RecordsStep::Back(mark)) => {
                if !records.is_untouched(&mark).await? {
                    return Err(Refusal::Written {
                        number,
                        since: mark.number,
                    });
                }
                self.prepare(next).await?;
                let put_back = records.put_back(&mark, number).await;
                self.or_unprepare(put_back).await?;
                true
            }
        };
        // Other hosts that share the records learn from it which version owns them. Before the version serves: its writes are never taken for another
        // version's.
        if self.parts.migrates == Migrates::TheElected && self.parts.may_migrate() {
            records.make_for(&backend.label().version).await?;
        }
        Ok(is_rewritten)
    }

    async fn prepare(&mut self, next: &History) -> Result<(), Refusal> {
        let prepared = self.history.preparing(next.clone());
        self.disk.write(&prepared).await.map(|_| ())
    }

    /// If the write failed, removes the prepared version from the history; a restart would do the same.
    async fn or_unprepare(&mut self, written: Result<(), Refusal>) -> Result<(), Refusal> {
        if written.is_err()
            && let Err(error) = self.disk.write(&self.history).await
        {
            tracing::warn!(driver = %self.parts.driver.name(), %error, "the history names a version that was not activated");
        }
        written
    }

    /// Where a host does not share the records: the note is needed if its history is lost. A failure does not reject a version: the history has the
    /// same information, and the next start tries again.
    pub(super) async fn note_owner(&mut self, plugin_version: &str, migrated: bool) {
        if self.parts.migrates != Migrates::ThisProcess {
            return;
        }
        let records = self.parts.records();
        let noted = if migrated {
            records.make_for(plugin_version).await
        } else {
            records.note_maker(plugin_version).await.map(drop)
        };
        if let Err(error) = noted {
            tracing::warn!(
                driver = %self.parts.driver.name(),
                %error,
                "the owner version of the records is recorded in the history only"
            );
        }
    }

    /// Drops what undoes migrations below the oldest kept version. Best effort: the host retries after the next swap.
    pub(super) async fn forget_marks(&mut self) {
        let Some(oldest) = self.history.oldest_kept() else {
            return;
        };
        if self.parts.may_migrate()
            && let Err(error) = self.parts.records().forget_up_to(oldest).await
        {
            tracing::warn!(driver = %self.parts.driver.name(), %error, "migration notes remain in the state store");
        }
    }

    /// A host that ended while records were changed left two histories; the records say which one applies. A new history has no number in common with
    /// earlier notes beside the records.
    pub(super) async fn settled(&mut self, mut history: History) -> Result<History, Refusal> {
        let records = self.parts.records();
        if let Some(coming) = history.prepared() {
            let changed = records.form().await? == Some(coming);
            tracing::warn!(
                driver = %self.parts.driver.name(),
                version = coming,
                changed,
                "the host ended during a migration: the version serves if the records were migrated"
            );
            history = history.settled(changed);
        }
        if history.is_empty() && self.parts.migrates == Migrates::ThisProcess {
            records.forget_numbers().await?;
        }
        Ok(history)
    }

    /// This host was a standby and is about to act. No host makes calls yet.
    pub(super) async fn take_over(
        &mut self,
        may: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<(), Refusal> {
        let parts = &self.parts;
        if parts.migrates != Migrates::TheElected {
            return Ok(());
        }
        // The first version that serves migrates the records itself, also one that served before; this includes a version that serves before this
        // host is notified that it is elected.
        let Some(running) = &self.running else {
            parts.driver.work_while(may);
            return Ok(());
        };
        let records = parts.records();
        let backend = &running.serving.backend;
        let entry = self.history.entry(running.number);
        let limits = entry.and_then(|entry| entry.desired());
        let limits = limits
            .map(|it| it.document.limits.clone())
            .unwrap_or_default();
        let made_for = records.made_for().await?;
        if let Some(it) = plan(backend, made_for, limits.time).await? {
            tracing::warn!(
                driver = %parts.driver.name(),
                from = it.from_version,
                to = %backend.label().version,
                "migrating the records for the version that serves here"
            );
            if it.migration == Migration::Rewriting {
                return Err(Refusal::rewriting_without_transaction());
            }
            let changes = records
                .changes(backend, &it.from_version, limits.time)
                .await?;
            records.add(changes, limits.state_bytes, &may).await?;
        }
        if !may() {
            return Err(Refusal::NotElected);
        }
        records.make_for(&backend.label().version).await
    }
}
