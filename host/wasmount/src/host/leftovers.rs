//! Leftovers without an owner, removed at the start: compiled code and unfinished mounts of backends that were removed while no host ran, and directories
//! of commands that were killed.
//!
//! Records of a plugin and the history of a backend's versions are never touched here: its document may be created again.

use super::VERSIONS;
use super::shared_services::SharedServices;
use super::workbench::sweep_temporary;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tokio::task::spawn_blocking;
use wasmount_core::names::DriverName;

/// A component of a version, by its digest (`wasmount_versions`).
const COMPONENT: &str = "wasm";

/// Removes the leftovers. `served` are the drivers that start now or follow at once.
pub(super) async fn sweep(
    services: &SharedServices,
    data_dir: &Path,
    served: BTreeSet<DriverName>,
) {
    let (versions, local) = (data_dir.join(VERSIONS), services.local.clone());
    let swept = spawn_blocking(move || {
        if let Some(local) = local {
            local.recover_without_document(&served);
        }
        sweep_temporary();
        let kept = served
            .iter()
            .map(|name| kept(&versions.join(name.as_str())));
        kept.collect::<Vec<_>>().concat()
    });
    // The host is shutting down: the next start does it.
    let Ok(claimed) = swept.await else { return };
    services.engine.sweep_compiled(&claimed).await;
}

/// Digests of the components that a driver may roll back to: each file is named by its digest. None for a new driver.
fn kept(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let components = paths.filter(|path| path.extension().is_some_and(|kind| kind == COMPONENT));
    let digests = components.filter_map(|path| {
        let digits = path.file_stem()?.to_str()?;
        Some(format!("sha256:{digits}"))
    });
    digests.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_claims_components_of_its_own_versions_only() {
        let folder = tempfile::tempdir().unwrap();
        let digits = "ab".repeat(32);
        for name in [format!("{digits}.wasm"), "history.json".to_owned()] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(kept(folder.path()), [format!("sha256:{digits}")]);
        assert_eq!(kept(&folder.path().join("new")), [""; 0]);
    }
}
