//! The command lines of Kubernetes' control plane.
//!
//! It starts nothing.

use super::access::{Access, User};
use super::programs::Programs;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

/// etcd's port for clients.
const ETCD_PORT: u16 = 2379;

/// etcd's port for peers, of which there are none.
const ETCD_PEER_PORT: u16 = 2380;

/// The API server's port in a cluster with namespaces of its own: its service has this port, and no port is translated there.
pub(super) const API_PORT: u16 = 443;

/// Addresses of services; the API server's own is the first one.
const SERVICES: &str = "10.96.0.0/24";

/// The issuer of service accounts' tokens.
const ISSUER: &str = "https://kubernetes.default.svc";

/// The addresses of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The address of all programs, on the loopback device.
    pub host: Ipv4Addr,
    /// The address that the API server binds to; the above, or all addresses.
    pub bind: Ipv4Addr,
    /// The address by which the cluster knows the API server.
    pub advertise: Ipv4Addr,
    /// The API server's port.
    pub port: u16,
}

/// A program and its arguments.
pub type CommandLine = Vec<OsString>;

impl Addresses {
    /// The addresses that must be free.
    pub(super) fn ports(&self) -> [SocketAddrV4; 3] {
        [ETCD_PORT, ETCD_PEER_PORT, self.port].map(|port| SocketAddrV4::new(self.host, port))
    }
}

/// etcd's address for its clients.
pub(super) fn etcd_clients(host: Ipv4Addr) -> String {
    format!("http://{host}:{ETCD_PORT}")
}

/// etcd, the store of the API server.
pub fn etcd(programs: &Programs, at: &Addresses, data: &Path) -> CommandLine {
    let clients = etcd_clients(at.host);
    let peers = format!("http://{}:{ETCD_PEER_PORT}", at.host);
    Line::of(programs.path("etcd"))
        .flag("--data-dir", data)
        .flag("--listen-client-urls", &clients)
        .flag("--advertise-client-urls", &clients)
        .flag("--listen-peer-urls", &peers)
        .flag("--initial-advertise-peer-urls", &peers)
        .flag("--initial-cluster", format!("default={peers}"))
        .flag("--log-level", "warn")
        // Its data need not survive a crash of the machine: no write need reach the disk.
        .switch("--unsafe-no-fsync")
        .0
}

/// The API server.
pub fn api_server(programs: &Programs, at: &Addresses, access: &Access) -> CommandLine {
    Line::of(programs.path("kube-apiserver"))
        .flag("--etcd-servers", etcd_clients(at.host))
        .flag("--bind-address", at.bind.to_string())
        .flag("--advertise-address", at.advertise.to_string())
        .flag("--secure-port", at.port.to_string())
        .flag("--cert-dir", access.certificates())
        .flag("--token-auth-file", access.tokens())
        .flag("--authorization-mode", "Node,RBAC")
        .flag("--enable-admission-plugins", "NodeRestriction")
        .flag("--service-cluster-ip-range", SERVICES)
        .flag("--service-account-issuer", ISSUER)
        .flag("--service-account-key-file", access.public_key())
        .flag("--service-account-signing-key-file", access.signing_key())
        // There is no other API server to reconcile with, and a loopback address is rejected as an endpoint.
        .flag("--endpoint-reconciler-type", "none")
        .flag("--kubelet-preferred-address-types", "InternalIP")
        // Drivers mount, so their pods are privileged.
        .flag("--allow-privileged", "true")
        .0
}

/// kube-controller-manager.
pub fn controller_manager(programs: &Programs, access: &Access) -> CommandLine {
    Line::of(programs.path("kube-controller-manager"))
        .flag("--kubeconfig", access.kubeconfig(User::ControllerManager))
        // Each of its controllers has the rights of its own service account, as in every production cluster.
        .switch("--use-service-account-credentials")
        .flag("--leader-elect", "false")
        .flag("--service-account-private-key-file", access.signing_key())
        .flag("--root-ca-file", access.certificate())
        .flag(
            "--bind-address",
            IpAddr::from(Ipv4Addr::LOCALHOST).to_string(),
        )
        .0
}

/// kube-scheduler.
pub fn scheduler(programs: &Programs, access: &Access) -> CommandLine {
    Line::of(programs.path("kube-scheduler"))
        .flag("--kubeconfig", access.kubeconfig(User::Scheduler))
        .flag("--leader-elect", "false")
        .flag(
            "--bind-address",
            IpAddr::from(Ipv4Addr::LOCALHOST).to_string(),
        )
        .0
}

/// The snapshot controller, of which a cluster has one for all drivers.
pub fn snapshot_controller(programs: &Programs, access: &Access) -> CommandLine {
    Line::of(programs.path("snapshot-controller"))
        .flag("--kubeconfig", access.kubeconfig(User::Admin))
        // Snapshots of volumes that only their own node can reach are taken on that node.
        .flag("--enable-distributed-snapshotting", "true")
        .flag("--feature-gates", "CSIVolumeGroupSnapshot=true")
        .0
}

/// Builds a list of arguments.
pub(super) struct Line(pub(super) CommandLine);

impl Line {
    pub(super) fn of(program: PathBuf) -> Self {
        Self(vec![program.into_os_string()])
    }

    pub(super) fn flag(mut self, name: &str, value: impl Into<OsString>) -> Self {
        let mut argument = OsString::from(name);
        argument.push("=");
        argument.push(value.into());
        self.0.push(argument);
        self
    }

    pub(super) fn switch(mut self, name: &str) -> Self {
        self.0.push(name.into());
        self
    }
}
