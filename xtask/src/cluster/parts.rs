//! The command lines of Kubernetes' control plane.
//!
//! It starts nothing.

use super::access::{Access, User};
use super::programs::Programs;
use super::supervisor::Service;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

/// etcd's port for clients.
const ETCD_PORT: u16 = 2379;

/// etcd's port for peers, of which there are none.
const ETCD_PEER_PORT: u16 = 2380;

/// The API server's port in a cluster with namespaces of its own: its service has this port, and no port is translated there.
pub(super) const API_PORT: u16 = 443;

/// Time without a renewed lease after which a node counts as lost: eight renewals. A fifth of the default, so that a test can outlast it: the longer
/// the API server is away, the later its clients try again, up to a minute.
pub const NODE_GRACE: Duration = Duration::from_secs(10);

/// Period in which kube-controller-manager looks at nodes; 5 s by default.
pub const NODE_MONITOR_PERIOD: Duration = Duration::from_secs(1);

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

impl Addresses {
    /// The addresses that must be free.
    pub fn ports(&self) -> [SocketAddrV4; 3] {
        [ETCD_PORT, ETCD_PEER_PORT, self.port].map(|port| SocketAddrV4::new(self.host, port))
    }
}

/// etcd's address for its clients.
pub(super) fn etcd_clients(host: Ipv4Addr) -> String {
    format!("http://{host}:{ETCD_PORT}")
}

/// etcd, the store of the API server.
pub fn etcd(programs: &Programs, at: &Addresses, data: &Path) -> Service {
    let clients = etcd_clients(at.host);
    let peers = format!("http://{}:{ETCD_PEER_PORT}", at.host);
    programs
        .service("etcd")
        .flag("--data-dir", data)
        .flag("--listen-client-urls", &clients)
        .flag("--advertise-client-urls", &clients)
        .flag("--listen-peer-urls", &peers)
        .flag("--initial-advertise-peer-urls", &peers)
        .flag("--initial-cluster", format!("default={peers}"))
        .flag("--log-level", "warn")
        // Its data need not survive a crash of the machine: no write need reach the disk.
        .argument("--unsafe-no-fsync")
}

/// The API server.
pub fn api_server(programs: &Programs, at: &Addresses, access: &Access) -> Service {
    programs
        .service("kube-apiserver")
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
}

/// kube-controller-manager.
pub fn controller_manager(programs: &Programs, access: &Access) -> Service {
    programs
        .service("kube-controller-manager")
        .flag("--kubeconfig", access.kubeconfig(User::ControllerManager))
        // Each of its controllers has the rights of its own service account, as in every production cluster.
        .argument("--use-service-account-credentials")
        .flag("--leader-elect", "false")
        .flag("--service-account-private-key-file", access.signing_key())
        .flag("--root-ca-file", access.certificate())
        // Claims and volumes whose change was refused as outdated are looked at again after this time; 15 s by default.
        .flag("--pvclaimbinder-sync-period", "1s")
        .flag(
            "--node-monitor-grace-period",
            format!("{}s", NODE_GRACE.as_secs()),
        )
        .flag(
            "--node-monitor-period",
            format!("{}s", NODE_MONITOR_PERIOD.as_secs()),
        )
        .flag("--bind-address", Ipv4Addr::LOCALHOST.to_string())
}

/// kube-scheduler.
pub fn scheduler(programs: &Programs, access: &Access) -> Service {
    programs
        .service("kube-scheduler")
        .flag("--kubeconfig", access.kubeconfig(User::Scheduler))
        .flag("--leader-elect", "false")
        .flag("--bind-address", Ipv4Addr::LOCALHOST.to_string())
}

/// The snapshot controller, of which a cluster has one for all drivers.
pub fn snapshot_controller(programs: &Programs, access: &Access) -> Service {
    programs
        .service("snapshot-controller")
        .flag("--kubeconfig", access.kubeconfig(User::Admin))
        // Snapshots of volumes that only their own node can reach are taken on that node.
        .flag("--enable-distributed-snapshotting", "true")
        // The first retry; each later one takes twice as long. 1 s by default.
        .flag("--retry-interval-start", "200ms")
        .flag("--feature-gates", "CSIVolumeGroupSnapshot=true")
}
