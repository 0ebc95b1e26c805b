//! `wasmount serve`: its flags, their defaults, and what can be said about them before anything is touched.
//!
//! It opens nothing but the documents; whether the node fits is asked by `host`.

use crate::config::Configured;
use crate::fault::Fault;
use crate::health::HealthAddress;
use crate::host::{self, HostOptions};
use crate::telemetry::{self, LogFormat};
use crate::{config, node};
use clap::{Args, ValueEnum};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tracing_subscriber::filter::Targets;
use wasmount_core::driver::Role;
use wasmount_core::names::NodeId;
use wasmount_csi::socket::SOCKET_PATH_BYTES;

/// Serve backends as CSI drivers, each on `<socket-dir>/<driverName>/csi.sock`
#[derive(Debug, Args)]
#[command(after_help = "\
Example, beside a kubelet, with two backends:
  $ wasmount serve --backend directory.yaml --backend nfs.yaml --node-id worker-1

Example, on a workstation, with all files in one place:
  $ mkdir -p /tmp/try/mounts
  $ wasmount serve --backend plugins/directory/backend.yaml \\
      --data-dir /tmp/try/data --run-dir /tmp/try/run \\
      --socket-dir /tmp/try/sockets --path-root /tmp/try/mounts

Exit codes: 0 after a clean stop (SIGTERM, SIGINT), 64 for wrong flags or documents, 1 for any other failure.")]
pub(crate) struct Flags {
    /// A StorageBackend document; once for each backend
    #[arg(
        long,
        required = true,
        value_name = "FILE",
        env = "WASMOUNT_BACKEND",
        value_delimiter = ','
    )]
    backend: Vec<PathBuf>,

    /// Directory of the durable store and the compiled plugins; one host at a time
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_DATA_DIR",
        default_value = "/var/lib/wasmount"
    )]
    data_dir: PathBuf,

    /// Directory of the journal of mounts; should be gone after a reboot, as the mounts are
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_RUN_DIR",
        default_value = "/run/wasmount"
    )]
    run_dir: PathBuf,

    /// Directory of the CSI sockets [default: plugins, in --kubelet-dir]
    #[arg(long, value_name = "DIR", env = "WASMOUNT_SOCKET_DIR")]
    socket_dir: Option<PathBuf>,

    /// CSI's name of this node [default: the host name]
    #[arg(long, value_name = "ID", env = "WASMOUNT_NODE_ID", value_parser = node_id)]
    node_id: Option<NodeId>,

    /// Which CSI services to serve
    #[arg(long, value_enum, env = "WASMOUNT_ROLE", default_value = "all")]
    role: RoleWord,

    /// kubelet's root directory
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_KUBELET_DIR",
        default_value = "/var/lib/kubelet"
    )]
    kubelet_dir: PathBuf,

    /// Directory below which volumes may be staged and published; may be repeated [default: that of --kubelet-dir]
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_PATH_ROOT",
        value_delimiter = ','
    )]
    path_root: Vec<PathBuf>,

    /// Address of /healthz and /readyz, or `off`
    // 9809: beside 9808, the livenessprobe sidecar's.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "WASMOUNT_LISTEN_HEALTH",
        default_value = "127.0.0.1:9809"
    )]
    listen_health: HealthAddress,

    /// Form of the log lines on standard error
    #[arg(long, value_enum, env = "WASMOUNT_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// Least level that is logged: off, error, warn, info, debug or trace. It is that of the host and its plugins; other crates are held to
    /// `warn`, unless they are named: `info,wasmount_mount=debug,h2=debug`
    #[arg(long, value_name = "LEVEL", env = "WASMOUNT_LOG", default_value = "info", value_parser = telemetry::levels)]
    log: Targets,

    /// Seconds that running calls may take after SIGTERM
    // 20: ten less than the 30 that Kubernetes gives a pod by default.
    #[arg(
        long,
        value_name = "SECONDS",
        env = "WASMOUNT_GRACE",
        default_value_t = 20
    )]
    grace: u64,
}

/// The roles as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleWord {
    /// Controller and node services, for tests and single-node clusters
    All,
    /// Node services: mounts, so it needs CAP_SYS_ADMIN
    Node,
    /// Controller services: needs no right
    Controller,
}

/// Serves until a signal.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    telemetry::start(flags.log_format, flags.log.clone());
    let backends = config::load(&flags.backend)?;
    let options = options(flags)?;
    sockets_fit(&options, &backends)?;
    host::serve(options, backends)
}

fn options(flags: Flags) -> Result<HostOptions, Fault> {
    let Flags {
        backend: _,
        data_dir,
        run_dir,
        socket_dir,
        node_id,
        role,
        kubelet_dir,
        path_root,
        listen_health,
        log_format: _,
        log: _,
        grace,
    } = flags;
    let role = match role {
        RoleWord::All => Role::All,
        RoleWord::Node => Role::Node,
        RoleWord::Controller => Role::Controller,
    };
    let socket_dir = socket_dir.unwrap_or_else(|| kubelet_dir.join("plugins"));
    for (flag, path) in [
        ("--data-dir", &data_dir),
        ("--run-dir", &run_dir),
        ("--socket-dir", &socket_dir),
    ] {
        makeable(flag, path)?;
    }
    plain("--kubelet-dir", &kubelet_dir)?;
    let mut path_roots = path_root;
    if role != Role::Controller {
        for root in &path_roots {
            existing("--path-root", root)?;
        }
        if path_roots.is_empty() {
            existing("--kubelet-dir", &kubelet_dir)?;
            path_roots.push(kubelet_dir.clone());
        }
    }
    let node_id = match node_id {
        Some(id) => id,
        None => node::host_name()?,
    };
    Ok(HostOptions {
        data_dir,
        run_dir,
        socket_dir,
        kubelet_dir,
        path_roots,
        node_id,
        role,
        health: listen_health,
        grace: Duration::from_secs(grace),
    })
}

/// Before binding, where the kernel's own message would not say what to do.
fn sockets_fit(options: &HostOptions, backends: &[Configured]) -> Result<(), Fault> {
    for backend in backends {
        let socket = options.socket(&backend.document.driver_name);
        let length = socket.as_os_str().len();
        if length > SOCKET_PATH_BYTES {
            let reason = format!(
                "the socket {} has a path of {length} bytes, and the kernel takes {SOCKET_PATH_BYTES}; choose a shorter directory",
                socket.display()
            );
            return Err(wrong("--socket-dir", &options.socket_dir, &reason));
        }
    }
    Ok(())
}

fn node_id(word: &str) -> Result<NodeId, String> {
    NodeId::parse("node id", word).map_err(|invalid| invalid.to_string())
}

/// A directory that the host makes if need be. Its parent must be there: a slip in a long path must not become a new tree.
fn makeable(flag: &'static str, path: &Path) -> Result<(), Fault> {
    plain(flag, path)?;
    if path.is_dir() {
        return Ok(());
    }
    if path.exists() {
        return Err(wrong(flag, path, "is not a directory"));
    }
    match path.parent() {
        Some(parent) if parent.is_dir() => Ok(()),
        _ => Err(wrong(
            flag,
            path,
            "neither it nor its parent directory exists; make the parent first",
        )),
    }
}

fn existing(flag: &'static str, path: &Path) -> Result<(), Fault> {
    plain(flag, path)?;
    if path.is_dir() {
        return Ok(());
    }
    Err(wrong(
        flag,
        path,
        "is not an existing directory; make it first, or name another",
    ))
}

/// Clients are given these paths and resolve them from elsewhere.
fn plain(flag: &'static str, path: &Path) -> Result<(), Fault> {
    if path.is_relative() {
        return Err(wrong(flag, path, "must be an absolute path"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(wrong(flag, path, "must not contain `..`"));
    }
    Ok(())
}

fn wrong(flag: &'static str, path: &Path, reason: &str) -> Fault {
    Fault::Flag {
        flag,
        value: path.display().to_string(),
        reason: reason.to_owned(),
    }
}
