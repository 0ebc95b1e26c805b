//! Loads a plugin as `serve` would and looks at what it offers, without a driver: for commands that print.

use super::workbench::{Pools, Workbench, block_on};
use crate::config::Configured;
use crate::fault::Fault;
use wasmount_core::backend::Backend;
use wasmount_core::services::ServiceSet;
use wasmount_versions::{AdmissionReport, Admitted};

/// What was found.
pub(crate) struct Inspected {
    /// Services and features.
    pub(crate) offer: ServiceSet,
    /// What its administrator should know.
    pub(crate) warnings: Vec<String>,
}

/// Admits the plugin of a document. Its storage need not be reachable from here: then the plugin says that it is not ready.
pub(crate) fn inspect(backend: &Configured) -> Result<Inspected, Fault> {
    block_on(async {
        let workbench = Workbench::set_up(backend.clone(), &Pools::Closed, None).await?;
        let Admitted {
            backend, warnings, ..
        } = workbench
            .admit(&mut AdmissionReport::default())
            .await
            .map_err(Fault::room("the plugin cannot serve"))?;
        Ok(Inspected {
            offer: backend.offer().clone(),
            warnings,
        })
    })
}
