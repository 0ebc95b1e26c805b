//! `native-twin`: serves plugins/hostpath, compiled into it, with the host's own driver, server, mounter and store.
//!
//! `wasmount bench` compares it with a host that serves the same plugin as a component: docs/bench.md has the commands, and what the ratio means.

#![forbid(unsafe_code)]

mod answer;
mod backend;
mod bindings;
#[path = "../../../host/engine/src/convert.rs"]
mod convert;
mod storage;

use backend::NativeBackend;
use clap::Parser;
use std::fmt::Display;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use storage::Host;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wasmount_core::document::{StorageBackend, raw};
use wasmount_core::driver::{Driver, DriverConfig, Profile, Role, ServingPolicy};
use wasmount_core::names::NodeId;
use wasmount_csi::{CallMetrics, server};
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};
use wasmount_socket::BoundSocket;
use wasmount_state::RedbStore;

/// As in the host: threads of one driver, and connections where descriptors are plentiful.
const THREADS: usize = 32;
const CONNECTIONS: usize = 4096;
/// How long running calls may take at the end, as in the host.
const GRACE: Duration = Duration::from_secs(20);

/// Serves plugins/hostpath as native code, to compare it with the component
#[derive(Debug, Parser)]
struct Arguments {
    /// The StorageBackend document; its plugin and its limits do not matter
    #[arg(long, value_name = "FILE")]
    backend: PathBuf,
    /// The state store, and pools of relative paths
    #[arg(long)]
    data_dir: PathBuf,
    /// The journal of mounts
    #[arg(long)]
    run_dir: PathBuf,
    /// kubelet's root directory: volumes are mounted at its paths below it
    #[arg(long, value_name = "DIR")]
    kubelet_dir: PathBuf,
    /// The CSI socket to serve on
    #[arg(long, value_name = "SOCKET")]
    socket: PathBuf,
    /// The CSI node id of this node
    #[arg(long, value_name = "ID", default_value = "localhost")]
    node_id: String,
}

/// Why it cannot serve: what failed, on what, and the reason.
type Failure = String;

fn main() -> ExitCode {
    log();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let document = document(&arguments.backend)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(cannot("start the async runtime"))?
        .block_on(serve(arguments, document))
}

async fn serve(arguments: Arguments, document: StorageBackend) -> Result<(), Failure> {
    let watch = |kind| signal(kind).map_err(cannot("watch for signals"));
    let mut terminate = watch(SignalKind::terminate())?;
    let mut interrupt = watch(SignalKind::interrupt())?;
    let node_id =
        NodeId::parse("--node-id", arguments.node_id.clone()).map_err(cannot("use the node id"))?;
    let state = RedbStore::open(&arguments.data_dir).map_err(cannot("open the store"))?;
    let mounter = mounter(&arguments, &document)?;
    let config = DriverConfig {
        name: document.driver_name.clone(),
        role: Role::All,
        profile: Profile::default(),
        node_id,
        policy: ServingPolicy::of(&document),
    };
    let driver = Driver::new(config, mounter.clone(), state.clone());
    let recovered = driver.recover().await;
    recovered.map_err(cannot("recover the volumes of an earlier process"))?;
    let backend = NativeBackend::new(Host {
        driver: document.driver_name.clone(),
        settings: document.settings.clone(),
        node_name: arguments.node_id,
        state,
        mounter,
    });
    let backend = backend.map_err(cannot("use the plugin"))?;
    driver.activate(Arc::new(backend), ServingPolicy::of(&document));
    let socket = BoundSocket::bind(&arguments.socket);
    let socket = socket.map_err(cannot("bind the socket"))?;
    let (metrics, closed) = (CallMetrics::default(), CancellationToken::new());
    let serving = server::serve(socket, driver.clone(), CONNECTIONS, metrics, closed.clone());
    let stopping = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        driver.shutdown(GRACE).await;
        closed.cancel();
        Ok(())
    };
    // An error of the server ends the wait for a signal.
    tokio::try_join!(serving, stopping).map_err(cannot("serve the socket"))?;
    Ok(())
}

fn document(file: &Path) -> Result<StorageBackend, Failure> {
    let what = || format!("read {}", file.display());
    let text = fs::read_to_string(file).map_err(cannot(what()))?;
    let options = serde_saphyr::options! { with_snippet: false, no_schema: true };
    let document: raw::Document =
        serde_saphyr::from_str_with_options(&text, options).map_err(cannot(what()))?;
    StorageBackend::try_from(document).map_err(cannot(what()))
}

/// The mounter of this process, with the directories above its pools.
fn mounter(arguments: &Arguments, document: &StorageBackend) -> Result<Arc<LocalMounter>, Failure> {
    let grants = document.grants.clone().resolved(&arguments.data_dir);
    let pools = grants.pools.values().filter_map(|pool| pool.directory());
    for directory in pools.filter_map(|pool| pool.parent()) {
        fs::create_dir_all(directory).map_err(cannot(format!("create {}", directory.display())))?;
    }
    let config = MounterConfig {
        roots: vec![PathRoot::Kubelet(arguments.kubelet_dir.clone())],
        own: Vec::new(),
        run_dir: arguments.run_dir.clone(),
        state_dir: arguments.data_dir.join("mounts"),
        grants: [(document.driver_name.clone(), grants)].into(),
        threads_per_driver: THREADS,
        node_root: None,
    };
    let mounter = LocalMounter::new(config).map_err(cannot("open the mounter"))?;
    Ok(Arc::new(mounter))
}

/// The levels that the host has unless it is told otherwise: spans cost the same in both.
fn log() {
    let levels = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("wasmount", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    tracing_subscriber::registry()
        .with(levels)
        .with(lines)
        .init();
}

/// For `map_err`: `what` follows "cannot".
fn cannot<E: Display>(what: impl Into<String>) -> impl FnOnce(E) -> Failure {
    let what = what.into();
    move |reason| format!("cannot {what}: {reason}")
}
