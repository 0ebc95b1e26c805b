//! Admission of a plugin in a file, in one go. Until it is admitted nothing has changed; then its pools are opened, as its first call would do.

use crate::admission_report::AdmissionReport;
use crate::admission_steps::{Admitted, Proof, run_admission};
use crate::plugin_file::{self, Component};
use crate::pools::pools_in_doubt;
use crate::refusal::Refusal;
use std::path::Path;
use std::sync::Arc;
use tokio::time::Instant;
use wasmount_core::capabilities::Hidden;
use wasmount_core::document::{Grants, PluginSource};
use wasmount_core::driver::Role;
use wasmount_engine::{BackendParts, Engine};

/// Admits a plugin. `base` is the folder of the document; `role` is this process's: one that serves a node alone must not take the pools
/// from the controller beside it.
pub async fn admit(
    engine: &Arc<Engine>,
    plugin: &PluginSource,
    base: &Path,
    grants: &Grants,
    parts: BackendParts,
    role: Role,
) -> Result<Admitted, Refusal> {
    let wasm = plugin_file::read(plugin, base).await?;
    let component = Component::of(wasm).await?;
    component.check_digest(plugin.digest.as_deref())?;
    let (driver, mounter) = (parts.driver.clone(), Arc::clone(&parts.mounter));
    let time = parts.limits.time;
    let proof = Proof {
        wasi: plugin.wasi,
        grants,
        parts,
        hidden: &Hidden::default(),
        kept: None,
        admitted_before: false,
    };
    let mut admitted = run_admission(
        engine,
        component.into_wasm(),
        proof,
        &mut AdmissionReport::default(),
    )
    .await?;
    if role != Role::Node && admitted.imports_pool {
        let deadline = Instant::now() + time;
        let doubts = pools_in_doubt(&mounter, &driver, grants, deadline).await;
        admitted.warnings.extend(doubts);
    }
    Ok(admitted)
}
