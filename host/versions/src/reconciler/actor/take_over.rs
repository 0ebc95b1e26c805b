//! A host that stood by is about to work.

use super::Actor;
use crate::migration::Records;
use crate::reconciler::Migrates;
use crate::reconciler::migration_plan::plan;
use crate::refusal::Refusal;
use wasmount_core::backend::Backend;
use wasmount_core::migration::Migration;

impl Actor {
    /// No call is made yet, by anybody.
    pub(super) async fn take_over(
        &mut self,
        may: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<(), Refusal> {
        let parts = &self.parts;
        if parts.migrates != Migrates::TheElected {
            return Ok(());
        }
        // The first version that comes looks at the records itself, also one that served before: if it comes before this host is told that it
        // works, it does so all the same.
        let Some(running) = &self.running else {
            parts.driver.work_while(may);
            return Ok(());
        };
        let records = Records::of(&parts.state, parts.driver.name());
        let backend = &running.backend;
        let entry = self.history.entry(running.number);
        let limits = entry.and_then(|entry| entry.desired());
        let limits = limits.map(|desired| desired.document.limits.clone());
        let limits = limits.unwrap_or_default();
        let made_for = records.made_for().await?;
        if let Some((migration, from)) = plan(backend, made_for, limits.time).await? {
            tracing::warn!(
                driver = %parts.driver.name(),
                from,
                to = %backend.label().version,
                "migrating the records for the version that serves here"
            );
            if migration == Migration::Rewriting {
                return Err(Refusal::rewriting_without_transaction());
            }
            let changes = records.changes(backend, &from, limits.time).await?;
            records.add(changes, limits.state_bytes, &may).await?;
        }
        if !may() {
            return Err(Refusal::NotElected);
        }
        records.make_for(&backend.label().version).await
    }
}
