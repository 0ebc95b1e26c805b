//! The composition root: it connects the crates of a host, with one driver for each document, from process start to a clean stop.
//! It is the only module that knows every crate, and it holds no rule of any.
//!
//! ```text
//! leftovers ─▶ preflight ─▶ health ─▶ data directory ─▶ shared services ─▶ backends ─▶ serving ─▶ signal ─▶ drained
//!                                              each: socket ─▶ recovery claimed ─▶ reconciler of its versions
//! ```
//!
//! Nothing after the sockets waits for a plugin: a backend without one serves teardown, and no backend waits for another. Nor does anything
//! wait for a mounter in another process; that process is composed in `mounter`.

mod backend;
mod backends;
mod common;
mod compiler;
mod control;
mod controller;
mod csi_drivers;
mod csi_node;
mod descriptors;
mod document_watch;
mod documents;
mod fetching;
mod follow;
mod kubernetes;
mod leftovers;
mod local_mounts;
mod mounter;
mod mounter_documents;
mod node_facts;
mod preflight;
mod registration;
mod secret_watch;
mod secrets;
mod serving;
mod settled_file;
mod shared_services;
mod signals;
mod sources;
mod status_page;
mod storage_backends;
mod storage_watch;
mod version_watch;
mod workbench;

use crate::config::Configured;
use crate::fault::Fault;
use crate::health;
use crate::listen_address::ListenAddress;
use crate::metrics::Metrics;
use crate::readiness::{Readiness, UNREAD};
use crate::status_page::StatusPage;
pub(crate) use compiler::compile_as_child;
pub(crate) use controller::{ControllerOptions, StateOptions};
pub(crate) use fetching::{FetchWork, fetch_as_child};
use ipnet::IpNet;
pub(crate) use kubernetes::{CsiNodeMode, KubernetesOptions, RegistrationMode};
pub(crate) use mounter::{MounterOptions, mount};
use serving::Serving;
pub(crate) use signals::Signals;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
pub(crate) use storage_backends::StorageBackendsOptions;
use tokio::task::spawn_blocking;
use wasmount_core::driver::{Profile, Role};
use wasmount_core::names::{DriverName, NodeId};
use wasmount_mount::PathRoot;
pub(crate) use workbench::{
    Called, Change, Conversed, Identity, Pools, Recorded, Records, Storage, TemporaryDirectory,
    Verdict, Workbench, block_on, changes,
};

/// How long threads that wait for dead storage, or for the data directory, may delay the end of the process. 1 s: a kill loses nothing of theirs,
/// since file systems that a copy has frozen are thawed when the mounter is dropped, with the last task.
const LAST_JOBS: Duration = Duration::from_secs(1);

/// Most threads for work that blocks. 8192: 50 drivers whose storage hangs have some 120 each (`Threads` of the mounter), and the state store of all
/// drivers must still find one. An unused one costs nothing.
const BLOCKING_THREADS: usize = 8192;

/// Mode of the host's own directories: store and journal name volumes of every tenant, and a volume is reached through its mounts, never through
/// the path of its pool.
const OWN_MODE: u32 = 0o700;

/// Compiled plugins, in the data directory.
const COMPILED: &str = "compiled";
/// What is kept of the versions of each driver, in the data directory.
const VERSIONS: &str = "versions";
/// The StorageBackend objects that were seen last, in the data directory.
const STORAGE_BACKENDS: &str = "storage-backends.json";

/// The options of the command line, checked.
#[derive(Debug, Clone)]
pub(crate) struct HostOptions {
    /// The flags as they were given, for the log.
    pub(crate) flags: String,
    /// The data directory: state store and compiled plugins.
    pub(crate) data_dir: PathBuf,
    /// The mounter.
    pub(crate) mounts: MountsOptions,
    /// Whether an empty state store may replace a lost one.
    pub(crate) accepts_empty_state: bool,
    /// Directory of the CSI sockets.
    pub(crate) socket_dir: PathBuf,
    /// Admin socket.
    pub(crate) admin_socket: PathBuf,
    /// kubelet's root.
    pub(crate) kubelet_dir: PathBuf,
    /// CSI node id of this node.
    pub(crate) node_id: NodeId,
    /// The CSI services to serve.
    pub(crate) role: Role,
    /// The CSI version to speak.
    pub(crate) profile: Profile,
    /// The address of the health checks.
    pub(crate) health: ListenAddress,
    /// The address of the status page.
    pub(crate) status_page: ListenAddress,
    /// How long running calls may take at shutdown.
    pub(crate) grace: Duration,
    /// Ranges of the addresses of the cluster's services and pods.
    pub(crate) cluster_ranges: Vec<IpNet>,
    /// Where records are stored, and whether a leader is elected.
    pub(crate) controller: ControllerOptions,
    /// The options for Kubernetes.
    pub(crate) kubernetes: KubernetesOptions,
    /// Which objects of the API server are served; none: only files.
    pub(crate) storage_backends: Option<StorageBackendsOptions>,
}

/// The mounter for the drivers of a host.
#[derive(Debug, Clone)]
pub(crate) enum MountsOptions {
    /// In this process.
    Here(MountPlaces),
    /// The process `wasmount mounter`.
    Elsewhere {
        /// Its socket.
        socket: PathBuf,
    },
}

/// The directories of a mounter.
#[derive(Debug, Clone)]
pub(crate) struct MountPlaces {
    /// The run directory, with the journal of mounts.
    pub(crate) run_dir: PathBuf,
    /// The path roots: directories below which volumes may be mounted; none for a controller.
    pub(crate) path_roots: Vec<PathRoot>,
    /// The root directory of the node, if this is a container.
    pub(crate) node_root: Option<PathBuf>,
}

/// Why a host cannot continue.
struct FatalError {
    fault: Fault,
    /// Another host may work already: this one ends at once. Otherwise running calls end first.
    lost: bool,
}

impl HostOptions {
    /// Says what runs, and where its files are.
    fn log_start(&self) {
        let (run_dir, mounter) = match &self.mounts {
            MountsOptions::Here(places) => (Some(&places.run_dir), None),
            MountsOptions::Elsewhere { socket } => (None, Some(socket)),
        };
        tracing::info!(
            role = self.role.as_str(),
            node = %self.node_id,
            version = env!("CARGO_PKG_VERSION"),
            data_dir = ?self.data_dir,
            run_dir = run_dir.map(tracing::field::debug),
            mounter = mounter.map(tracing::field::debug),
            socket_dir = ?self.socket_dir,
            admin_socket = ?self.admin_socket,
            kubelet_dir = ?self.kubelet_dir,
            health = self.health.map(tracing::field::display),
            status_page = self.status_page.map(tracing::field::display),
            grace_seconds = self.grace.as_secs(),
            flags = self.flags,
            "host started"
        );
    }

    /// The CSI socket of a driver.
    pub(crate) fn socket(&self, driver: &DriverName) -> PathBuf {
        self.socket_dir.join(driver.as_str()).join("csi.sock")
    }
}

/// Creates a directory with access for the host only, and its missing parents.
fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(OWN_MODE)
        .create(path)
}

/// Creates a directory, if it is missing; its parent must exist.
fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Serves until a signal, then stops cleanly.
pub(crate) fn serve(options: HostOptions, backends: Vec<Configured>) -> Result<(), Fault> {
    let place = registration::prepare(&options, &backends)?;
    preflight::check(&options, &backends)?;
    let descriptors = descriptors::raise();
    run_to_end(run(options, backends, descriptors, place))
}

/// Runs the work of a process to its end.
pub(crate) fn run_to_end<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(Fault::failed("the async runtime cannot be started"))?;
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_JOBS);
    ended
}

/// Does work of the start that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(work)
        .await
        .map_err(Fault::failed("the start was stopped"))?
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
    let reads_objects = options.storage_backends.is_some();
    readiness.set_objects(reads_objects.then(|| UNREAD.to_owned()));
    let metrics = Arc::new(Metrics::new(readiness.clone()));
    health::serve(options.health, readiness.clone(), metrics.clone()).await?;
    let page = StatusPage::bind(options.status_page).await?;

    let grace = options.grace;
    let starting = Serving::start(
        options,
        backends,
        readiness,
        metrics,
        descriptors,
        place,
        page,
    );
    let mut serving = tokio::select! {
        started = starting => started?,
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
