//! What a version makes of the records that another one left.

use super::{Migrates, ReconcilerParts};
use crate::admission_steps::call_at_admission;
use crate::migration::Records;
use crate::refusal::Refusal;
use std::time::Duration;
use wasmount_core::backend::Backend;
use wasmount_core::migration::Migration;
use wasmount_core::rpc::Rpc;
use wasmount_engine::WasmBackend;

/// Where others share the records, what is noted beside them counts, and not what has served here; where nobody does, it is asked if the history
/// does not know. `own`: as the history has it.
pub(super) async fn owner_version(
    parts: &ReconcilerParts,
    own: Option<String>,
) -> Result<Option<String>, Refusal> {
    let records = Records::of(&parts.state, parts.driver.name());
    match (parts.migrates, own) {
        (Migrates::AnotherProcess, _) => Ok(None),
        (Migrates::ThisProcess, Some(own)) => Ok(Some(own)),
        (Migrates::ThisProcess, None) => records.made_for().await,
        (Migrates::TheElected, own) => Ok(records.made_for().await?.or(own)),
    }
}

/// Who stands by waits for whoever works.
pub(super) fn allowed<T>(
    parts: &ReconcilerParts,
    migration: Option<T>,
) -> Result<Option<T>, Refusal> {
    if migration.is_some() && !parts.may_migrate() {
        return Err(Refusal::NotElected);
    }
    Ok(migration)
}

/// What a version makes of another's records, if anything.
pub(super) async fn plan(
    backend: &WasmBackend,
    records_of: Option<String>,
    time: Duration,
) -> Result<Option<(Migration, String)>, Refusal> {
    let Some(from) = records_of.filter(|from| *from != backend.label().version) else {
        return Ok(None);
    };
    let call = call_at_admission(Rpc::GetPluginInfo, time);
    let planned = backend.plan_migration(&call, &from).await;
    match planned {
        Ok(Migration::Unneeded) => Ok(None),
        Ok(migration) => Ok(Some((migration, from))),
        Err(error) => Err(Refusal::Migration {
            reason: error.to_string(),
        }),
    }
}
