//! `wasmount serve`: its flags, their defaults, and their validation without side effects.
//!
//! It opens only the documents; `host` checks the node.

mod controller;
mod kubernetes;
mod storage_backends;

use super::admin::ADMIN_SOCKET;
use super::command;
use super::common::{CommonFlags, MountFlags, makeable, plain, socket_fits, wrong};
use crate::config::{self, Configured};
use crate::fault::Fault;
use crate::host::{self, HostOptions, MountsOptions, RegistrationMode};
use crate::listen_address::{self, ListenAddress};
use crate::telemetry::{Collector, Spans, Traces};
use clap::{ArgGroup, Args, ValueEnum};
use controller::ControllerFlags;
use ipnet::IpNet;
use kubernetes::KubernetesFlags;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use storage_backends::StorageBackendsFlags;
use wasmount_core::driver::{Profile, Role};
use wasmount_core::names::NodeId;
use wasmount_kubernetes::{registration_socket, registry};

/// This subcommand.
const NAME: &str = "serve";

/// Serve backends as CSI drivers, each on `<socket-dir>/<driverName>/csi.sock`
#[derive(Debug, Args)]
// A host of objects needs no file.
#[command(mut_arg("backend", |it| it.required(false)))]
#[command(group(ArgGroup::new("served").args(["backend", "storage_backends"]).required(true).multiple(true)))]
#[command(after_help = "\
Example, beside a kubelet, with two backends:
  $ wasmount serve --backend directory.yaml --backend nfs.yaml \\
      --node-id worker-1

Example, in a cluster, with the backends that are objects of it:
  $ wasmount serve --storage-backends --role node --node-id worker-1

Example, on a workstation, with all files in one place:
  $ mkdir -p /tmp/try/mounts
  $ wasmount serve --backend plugins/directory/backend.yaml \\
      --data-dir /tmp/try/data --run-dir /tmp/try/run \\
      --socket-dir /tmp/try/sockets --path-root /tmp/try/mounts

Exit codes: 0 after a clean stop (SIGTERM, SIGINT), 64 for wrong flags or documents, 1 for any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    mount: MountFlags,

    /// Directory of the state store and of compiled plugins; locked by one host
    #[arg(long, value_name = "DIR", env, default_value = "/var/lib/wasmount")]
    data_dir: PathBuf,

    /// Accept that the state store is lost and start with an empty one; records of volumes and snapshots are lost. For one start
    #[arg(long, env)]
    accept_empty_state: bool,

    /// Directory of the CSI sockets [default: plugins, in --kubelet-dir]
    #[arg(long, value_name = "DIR", env)]
    socket_dir: Option<PathBuf>,

    /// Admin socket for `wasmount status`, `swap` and others; for root and the user of the host [default: admin.sock, in --data-dir]
    #[arg(long, value_name = "FILE", env)]
    admin_socket: Option<PathBuf>,

    /// CSI node id of this node [default: the host name]
    #[arg(long, value_name = "ID", env, value_parser = node_id)]
    node_id: Option<NodeId>,

    /// CSI services to serve
    #[arg(long, env, default_value = "all")]
    role: RoleArg,

    /// CSI version to speak: 1.13 has health RPCs where 1.12 has volume conditions
    #[arg(long, value_name = "VERSION", env, default_value = "1.12")]
    csi_profile: ProfileArg,

    /// Use the mounter process at this socket, `unix:/path/of/its.sock`: the host then needs no capability. Run directory, path roots and pools
    /// are those of `wasmount mounter`
    #[arg(
        long,
        value_name = "ADDRESS",
        env,
        value_parser = mounter_socket,
        conflicts_with_all = ["run_dir", "path_root", "node_root"]
    )]
    mounter: Option<PathBuf>,

    /// Address of /healthz, /readyz and /metrics, or `off`
    // 9809: beside 9808, the livenessprobe sidecar's.
    #[arg(long, value_name = "ADDRESS", env, default_value = "127.0.0.1:9809",
        value_parser = listen_address::parse)]
    listen_health: ListenAddress,

    /// Address of the status page for a browser, or `off`; a port alone is one of 127.0.0.1. Whoever reaches it can read it
    #[arg(long, value_name = "ADDRESS", env, default_value = "off", value_parser = listen_address::parse)]
    listen_status_page: ListenAddress,

    /// Send traces of calls to this OpenTelemetry collector (OTLP over gRPC), such as `http://otel-collector:4317`; the variables `OTEL_..`
    /// configure the rest
    #[arg(long, value_name = "URL", env)]
    otlp_endpoint: Option<Collector>,

    /// Addresses of the cluster's services and pods, as the networks in its configuration: plugins send requests there only where a network
    /// grant names the address
    #[arg(
        long,
        value_name = "CIDR",
        env,
        value_parser = network,
        value_delimiter = ','
    )]
    cluster_ranges: Vec<IpNet>,

    #[command(flatten)]
    controller: ControllerFlags,

    #[command(flatten)]
    kubernetes: KubernetesFlags,

    #[command(flatten)]
    storage_backends: StorageBackendsFlags,
}

/// The roles as flag values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    /// Controller and node services, for tests and single-node clusters
    All,
    /// Node services: they mount, which needs CAP_SYS_ADMIN or --mounter
    Node,
    /// Controller services: they need no privileges
    Controller,
}

/// The versions of CSI as flag values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProfileArg {
    /// For clients built with CSI 1.12 or earlier
    #[value(name = "1.12")]
    V1_12,
    /// For clients built with CSI 1.13
    #[value(name = "1.13")]
    V1_13,
}

impl From<ProfileArg> for Profile {
    fn from(value: ProfileArg) -> Self {
        match value {
            ProfileArg::V1_12 => Self::V1_12,
            ProfileArg::V1_13 => Self::V1_13,
        }
    }
}

/// Serves until a signal.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        mount, data_dir, ..
    } = flags;
    let node_id = flags.node_id.map_or_else(host_name, Ok)?;
    let collector = flags.otlp_endpoint.as_ref();
    let traces = collector.map(|collector| Traces::to(collector, &node_id.to_string()));
    let traces = traces.transpose()?;
    let spans = traces.as_ref().map_or(Spans::Logged, Spans::Exported);
    let (backends, grace) = flags.common.begin(spans)?;
    config::of_one_host(&backends)?;
    let role = match flags.role {
        RoleArg::All => Role::All,
        RoleArg::Node => Role::Node,
        RoleArg::Controller => Role::Controller,
    };
    let controller = flags.controller.options(role)?;
    makeable("--data-dir", &data_dir)?;
    if let Some(socket) = &flags.admin_socket {
        plain("--admin-socket", socket)?;
        socket_fits("--admin-socket", socket, socket)?;
    }
    let default_admin_socket = || data_dir.join(ADMIN_SOCKET);
    let admin_socket = flags.admin_socket.unwrap_or_else(default_admin_socket);
    plain("--kubelet-dir", &mount.kubelet_dir)?;
    let socket_dir = match flags.socket_dir {
        Some(socket_dir) => socket_dir,
        None => default_socket_dir(&mount.kubelet_dir)?,
    };
    makeable("--socket-dir", &socket_dir)?;
    let mounts = match flags.mounter {
        Some(socket) => MountsOptions::Elsewhere { socket },
        None => {
            makeable("--run-dir", &mount.run_dir)?;
            MountsOptions::Here(mount.places(role != Role::Controller)?)
        }
    };
    let options = HostOptions {
        flags: given_flags(env::args_os().skip(1), |name| env::var_os(name)),
        data_dir,
        accepts_empty_state: flags.accept_empty_state,
        mounts,
        socket_dir,
        admin_socket,
        kubelet_dir: mount.kubelet_dir,
        kubernetes: flags.kubernetes.options(role, || node_id.to_string()),
        node_id,
        role,
        profile: flags.csi_profile.into(),
        health: flags.listen_health,
        status_page: flags.listen_status_page,
        grace,
        cluster_ranges: flags.cluster_ranges,
        controller,
        storage_backends: flags.storage_backends.options(role),
    };
    sockets_fit(&options, &backends)?;
    host::serve(options, backends)
}

/// The flags as they were given: the command line, and the variables. None of them is a secret: secrets are in files. Variables of
/// other subcommands may be, such as the password of a signing key.
fn given_flags(
    arguments: impl Iterator<Item = OsString>,
    variable: impl Fn(&OsStr) -> Option<OsString>,
) -> String {
    let command = command();
    let flags = command.find_subcommand(NAME).into_iter();
    let flags = flags.flat_map(clap::Command::get_arguments);
    let variables = flags.filter_map(|flag| {
        let mut setting = flag.get_env()?.to_owned();
        let value = variable(&setting)?;
        setting.push("=");
        setting.push(value);
        Some(setting)
    });
    let all = arguments.chain(variables);
    let all: Vec<_> = all.map(|it| it.to_string_lossy().into_owned()).collect();
    all.join(" ")
}

/// The directory in which kubelet expects the sockets of its plugins. An error is about the flag that it follows from.
fn default_socket_dir(kubelet_dir: &Path) -> Result<PathBuf, Fault> {
    if kubelet_dir.is_dir() {
        return Ok(kubelet_dir.join("plugins"));
    }
    let reason = "is not an existing directory; name the root directory of kubelet, or without a kubelet --socket-dir and --path-root";
    Err(wrong("--kubelet-dir", kubelet_dir, reason))
}

fn sockets_fit(options: &HostOptions, backends: &[Configured]) -> Result<(), Fault> {
    for backend in backends {
        let socket = options.socket(&backend.document.driver_name);
        socket_fits("--socket-dir", &options.socket_dir, &socket)?;
        if options.kubernetes.registration != RegistrationMode::Off {
            let registry = registry(&options.kubelet_dir);
            let socket = registration_socket(&registry, &backend.document.driver_name);
            socket_fits("--kubelet-dir", &options.kubelet_dir, &socket)?;
        }
    }
    Ok(())
}

/// The node's name if no flag names it: the host name, as kubelet has it, in lower case.
fn host_name() -> Result<NodeId, Fault> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().to_lowercase();
    NodeId::parse("host name", name.as_str()).map_err(|invalid| {
        let reason = format!("{invalid}; name the node yourself");
        Fault::flag("--node-id", &name, reason)
    })
}

fn network(value: &str) -> Result<IpNet, String> {
    let network = value.parse();
    network.map_err(|_| "must be a network such as `10.96.0.0/12` or `fd00::/108`".to_owned())
}

fn node_id(value: &str) -> Result<NodeId, String> {
    NodeId::parse("node id", value).map_err(|invalid| invalid.to_string())
}

fn mounter_socket(value: &str) -> Result<PathBuf, String> {
    match value.strip_prefix("unix:") {
        Some(path) if Path::new(path).is_absolute() => Ok(PathBuf::from(path)),
        _ => Err("must be `unix:` and the full path of the mounter's socket".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_flags_contain_no_variable_of_another_subcommand() {
        let arguments = ["serve", "--backend", "a.yaml"].map(OsString::from);
        let set = |name: &OsStr| match name.to_str()? {
            "WASMOUNT_LOG" | "WASMOUNT_KEY_PASSWORD" | "WASMOUNT_OUTPUT" => Some("v".into()),
            _ => None,
        };
        let given = given_flags(arguments.into_iter(), set);
        assert_eq!(given, "serve --backend a.yaml WASMOUNT_LOG=v");
    }
}
