//! The composition: the rooms of a host joined, one driver for each document, from an empty process to a clean stop. Apart because it is the
//! only place that knows every room; it holds no rule of any.
//!
//! ```text
//! leftovers ─▶ preflight ─▶ health ─▶ data directory ─▶ rooms ─▶ backends ─▶ serving ─▶ signal ─▶ drained
//!                                              each: socket ─▶ recovery claimed ─▶ reconciler of its versions
//! ```
//!
//! Nothing after the sockets waits for a plugin: a backend without one serves tear-down, and no backend waits for another. Nor does anything
//! wait for a mounter in a process of its own, which is put together in `mounter`.

mod backend;
mod backends;
mod common;
mod compiler;
mod control;
mod controller;
mod csi_drivers;
mod csi_node;
mod data_dir;
mod descriptors;
mod document_watch;
mod documents;
mod fatal;
mod fetching;
mod follow;
mod inspect;
mod kubernetes;
mod leftovers;
mod local_mounts;
mod mounter;
mod mounter_watch;
mod preflight;
mod registration;
mod secret_watch;
mod secrets;
mod serving;
mod settled_file;
mod shared_roots;
mod shared_services;
mod signals;
mod sources;
mod storage_backends;
mod storage_watch;
mod version_watch;
mod workbench;

use crate::config::Configured;
use crate::fault::Fault;
use crate::health::{self, HealthAddress};
use crate::metrics::Metrics;
use crate::readiness::Readiness;
pub(crate) use compiler::compile_as_child;
pub(crate) use controller::{ControllerOptions, StateOptions};
pub(crate) use fetching::{FetchWork, fetch_as_child};
pub(crate) use inspect::{Inspected, inspect};
pub(crate) use kubernetes::{CsiNodeMode, KubernetesOptions, RegistrationMode};
pub(crate) use mounter::{MounterOptions, mount};
use serving::Serving;
use shared_services::SharedServices;
use signals::Signals;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use storage_backends::StorageBackendsOptions;
use wasmount_core::driver::{Profile, Role};
use wasmount_core::names::{DriverName, NodeId};
use wasmount_mount::PathRoot;
pub(crate) use workbench::{
    Called, Change, Identity, Place, Pools, Recorded, Records, Verdict, Workbench, block_on,
    changes, signatures_beside, signer_keys,
};

/// How long threads that wait for dead storage, or for the data directory, may keep the process. 1 s: they hold nothing that a kill loses, for
/// what a copy has frozen is thawed when the mounter is dropped, with the last task.
const LAST_JOBS: Duration = Duration::from_secs(1);

/// Of the host's own directories: store and journal name volumes of every tenant, and a volume is reached through its mounts, never through
/// the path of its pool.
const OWN_MODE: u32 = 0o700;

/// What the command line decides, checked.
#[derive(Debug, Clone)]
pub(crate) struct HostOptions {
    /// Store and compiled plugins.
    pub(crate) data_dir: PathBuf,
    /// Who mounts.
    pub(crate) mounts: MountsOptions,
    /// Whether a state store may be made in the place of one that is gone.
    pub(crate) accepts_empty_state: bool,
    /// Sockets.
    pub(crate) socket_dir: PathBuf,
    /// Where an administrator asks.
    pub(crate) admin_socket: PathBuf,
    /// kubelet's root.
    pub(crate) kubelet_dir: PathBuf,
    /// This node.
    pub(crate) node_id: NodeId,
    /// Which services.
    pub(crate) role: Role,
    /// Which CSI is spoken.
    pub(crate) profile: Profile,
    /// Where health checks are served.
    pub(crate) health: HealthAddress,
    /// How long running calls may take at the end.
    pub(crate) grace: Duration,
    /// Where records are, and who works.
    pub(crate) controller: ControllerOptions,
    /// What is done for Kubernetes.
    pub(crate) kubernetes: KubernetesOptions,
    /// Which objects of the API server are served; none: files alone.
    pub(crate) storage_backends: Option<StorageBackendsOptions>,
}

/// Who mounts for the drivers of a host.
#[derive(Debug, Clone)]
pub(crate) enum MountsOptions {
    /// This process.
    Here {
        /// The journal of mounts.
        run_dir: PathBuf,
        /// Where volumes may be mounted; none for a controller.
        path_roots: Vec<PathRoot>,
    },
    /// `wasmount mounter`.
    Elsewhere {
        /// Where it listens.
        socket: PathBuf,
    },
}

impl HostOptions {
    /// Where a driver serves.
    pub(crate) fn socket(&self, driver: &DriverName) -> PathBuf {
        self.socket_dir.join(driver.as_str()).join("csi.sock")
    }
}

/// Makes a directory that is the host's alone, and those above it.
fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(OWN_MODE)
        .create(path)
}

/// Serves until a signal, then stops cleanly.
pub(crate) fn serve(options: HostOptions, backends: Vec<Configured>) -> Result<(), Fault> {
    let place = registration::prepare(&options, &backends)?;
    preflight::check(&options, &backends)?;
    let descriptors = descriptors::raise();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Fault::room("the host's threads cannot be started"))?;
    let ended = runtime.block_on(run(options, backends, descriptors, place));
    runtime.shutdown_timeout(LAST_JOBS);
    ended
}

async fn run(
    options: HostOptions,
    backends: Vec<Configured>,
    descriptors: u64,
    place: registration::Place,
) -> Result<(), Fault> {
    let mut signals = Signals::watch()?;
    let names = backends.iter().map(|b| b.document.driver_name.clone());
    let readiness = Arc::new(Readiness::new(names));
    let metrics = Arc::new(Metrics::new(readiness.clone()));
    health::serve(options.health, readiness.clone(), metrics.clone()).await?;

    let grace = options.grace;
    let mut serving = tokio::select! {
        started = start(options, backends, readiness, metrics, descriptors, place) => started?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before serving");
            return Ok(());
        }
    };
    let ended = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, grace_seconds = grace.as_secs(), "stopping");
            Ok(())
        }
        fault = serving.fatal_error() => Err(fault),
    };
    tokio::select! {
        () = serving.stop(grace) => {}
        signal = signals.next() => tracing::warn!(signal, "stopping immediately: the next start recovers unfinished work"),
    }
    ended
}

async fn start(
    options: HostOptions,
    backends: Vec<Configured>,
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    descriptors: u64,
    place: registration::Place,
) -> Result<Serving, Fault> {
    let (services, documents) = SharedServices::open(&options, backends, &readiness).await?;
    let (role, node) = (options.role, options.node_id.clone());
    let serving = Serving::start(
        options,
        services,
        documents,
        &readiness,
        &metrics,
        descriptors,
        place,
    )
    .await?;
    tracing::info!(?role, %node, "serving");
    Ok(serving)
}
