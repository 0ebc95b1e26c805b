//! The mounter of this process: the grants of the documents, the directories of pools, the journal.

use super::{COMPILED, MountPlaces, STORAGE_BACKENDS, VERSIONS, private_directory};
use crate::config::Configured;
use crate::fault::Fault;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmount_core::document::Grants;
use wasmount_core::names::DriverName;
use wasmount_mount::{LocalMounter, MounterConfig};

/// Concurrent blocking calls of one driver: kubelet's own parallelism on a node is far lower, and storage that does not answer may block
/// all of them without blocking another driver's.
const THREADS_PER_DRIVER: usize = 32;

/// Creates the directories and reads the journal. `sockets`: the process's own socket directory. It blocks.
pub(super) fn open(
    data_dir: &Path,
    places: MountPlaces,
    sockets: &Path,
    backends: &[Configured],
) -> Result<Arc<LocalMounter>, Fault> {
    let documents = || backends.iter().map(|backend| &backend.document);
    for directory in documents().flat_map(|document| own_pools(data_dir, &document.grants)) {
        private_directory(&directory).map_err(Fault::failed(format!(
            "the directory {} for pools cannot be made",
            directory.display()
        )))?;
    }
    let grants = documents().map(|document| {
        let grants = document.grants.clone().resolved(data_dir);
        (document.driver_name.clone(), grants)
    });
    let config = MounterConfig {
        roots: places.path_roots,
        own: own_directories(data_dir, sockets),
        run_dir: places.run_dir,
        state_dir: data_dir.join("mounts"),
        grants: grants.collect(),
        threads_per_driver: THREADS_PER_DRIVER,
        node_root: places.node_root,
    };
    let mounter = LocalMounter::new(config);
    let mounter = mounter.map_err(Fault::failed("the records of mounts are not usable"))?;
    Ok(Arc::new(mounter))
}

/// Sets a document's grants while the mounter runs; none: the driver has no grants any more. It blocks.
pub(super) fn grant(
    mounter: &LocalMounter,
    data_dir: &Path,
    driver: &DriverName,
    grants: Option<Grants>,
) -> io::Result<()> {
    for directory in grants.iter().flat_map(|grants| own_pools(data_dir, grants)) {
        private_directory(&directory)?;
    }
    let resolved = grants.map(|grants| grants.resolved(data_dir));
    let granted = mounter.set_grants(driver, resolved);
    granted.map_err(|overlap| io::Error::new(io::ErrorKind::InvalidInput, overlap))
}

/// The directories that the host makes in its data directory beside pools, and the directory of its sockets.
fn own_directories(data_dir: &Path, sockets: &Path) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = [COMPILED, STORAGE_BACKENDS, VERSIONS]
        .iter()
        .map(|name| data_dir.join(name))
        .collect();
    // The data directory, and with it the pools, may be below the socket directory.
    if !data_dir.starts_with(sockets) {
        own.push(sockets.to_owned());
    }
    own
}

/// The directories above pools of relative paths. They are in the host's own data directory, so the host must make them; a pool elsewhere is
/// the administrator's, and a typing error in its path must not become a new tree.
fn own_pools(data_dir: &Path, grants: &Grants) -> Vec<PathBuf> {
    let pools = grants.pools.values();
    pools
        .filter_map(|pool| pool.directory())
        .filter(|path| path.is_relative())
        .filter_map(|path| Some(data_dir.join(path).parent()?.to_owned()))
        .collect()
}
