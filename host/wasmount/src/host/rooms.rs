//! The rooms that all drivers of a host share, opened in their order: data directory, store, mounts, engine. Apart because opening them
//! blocks, and because a second host must be seen to wait at the first step, before it touches anything.

use super::HostOptions;
use crate::config::Configured;
use crate::fault::Fault;
use crate::readiness::Readiness;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use wasmount_core::document::Limits;
use wasmount_core::mounter::Mounter;
use wasmount_engine::{Engine, EngineOptions};
use wasmount_mount::{LocalMounter, MounterConfig};
use wasmount_state::{DataDirLock, LockError, RedbStore};

/// Blocking calls of one driver at a time: kubelet's own parallelism on a node is far lower, and storage that does not answer may hold them
/// all without holding another driver's.
const THREADS_PER_DRIVER: usize = 32;

/// Volumes are reached through mounts, never through the path of their pool.
const OWN_MODE: u32 = 0o700;

/// What every driver is given.
#[derive(Clone)]
pub(super) struct Rooms {
    /// Runs plugins.
    pub(super) engine: Arc<Engine>,
    /// Mounts and pools.
    pub(super) mounter: Arc<dyn Mounter>,
    /// Records. It holds the lock of the data directory.
    pub(super) state: Arc<RedbStore>,
}

impl Rooms {
    /// Waits for the data directory as long as it takes, then opens all.
    pub(super) async fn open(
        options: &HostOptions,
        backends: &[Configured],
        readiness: &Readiness,
    ) -> Result<Self, Fault> {
        let lock = data_directory(&options.data_dir, readiness).await?;
        let data_dir = &options.data_dir;
        let own_pools = own_pools(data_dir, backends);
        let grants = backends
            .iter()
            .map(|Configured { document, .. }| {
                let grants = document.grants.clone().resolved(data_dir);
                (document.driver_name.clone(), grants)
            })
            .collect::<BTreeMap<_, _>>();
        let mounter = MounterConfig {
            roots: options.path_roots.clone(),
            run_dir: options.run_dir.clone(),
            state_dir: data_dir.join("mounts"),
            grants,
            threads_per_driver: THREADS_PER_DRIVER,
        };
        let limits: Vec<Limits> = backends
            .iter()
            .map(|backend| backend.document.limits.clone())
            .collect();
        let engine = EngineOptions::for_backends(Some(data_dir.join("compiled")), &limits);
        blocking(move || {
            for directory in own_pools {
                make(&directory).map_err(Fault::room(format!(
                    "the directory {} for pools cannot be made",
                    directory.display()
                )))?;
            }
            Ok(Self {
                state: RedbStore::open_locked(lock)
                    .map_err(Fault::room("the state store is not usable"))?,
                mounter: LocalMounter::new(mounter)
                    .map(|mounter| Arc::new(mounter) as Arc<dyn Mounter>)
                    .map_err(Fault::room("the journal of mounts is not usable"))?,
                engine: Engine::new(engine)
                    .map_err(Fault::room("plugins cannot be run on this machine"))?,
            })
        })
        .await
    }
}

/// The directories above pools of relative paths. They lie in the host's own directory, so nobody else makes them; a pool elsewhere is the
/// administrator's, and a slip in its path must not become a new tree.
fn own_pools(data_dir: &Path, backends: &[Configured]) -> Vec<PathBuf> {
    let pools = backends
        .iter()
        .flat_map(|it| it.document.grants.pools.values());
    pools
        .filter(|pool| pool.path.is_relative())
        .filter_map(|pool| Some(data_dir.join(&pool.path).parent()?.to_owned()))
        .collect()
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(OWN_MODE)
        .create(directory)
}

/// The lock; a second host says that it waits, here and in its readiness.
async fn data_directory(directory: &Path, readiness: &Readiness) -> Result<DataDirLock, Fault> {
    let lock = match lock(directory.to_owned(), false).await? {
        Err(LockError::Held { directory }) => {
            let waiting = format!(
                "waiting for the other host that uses the data directory {}",
                directory.display()
            );
            // First, so that whoever reads the line finds the host unready.
            readiness.set_host(Some(waiting.clone()));
            tracing::warn!("{waiting}");
            lock(directory, true).await?
        }
        tried => tried,
    };
    lock.map_err(Fault::room("the data directory is not usable"))
}

async fn lock(directory: PathBuf, wait: bool) -> Result<Result<DataDirLock, LockError>, Fault> {
    blocking(move || Ok(DataDirLock::acquire(&directory, wait))).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(work)
        .await
        .map_err(Fault::room("the start was stopped"))?
}
