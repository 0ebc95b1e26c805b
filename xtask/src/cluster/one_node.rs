//! A complete cluster of one node, and the handle of the process that started it.
//!
//! All of it is in namespaces of its own: only the API server listens on the machine's network, on a loopback address. When the first
//! process of the namespaces ends, everything in them ends. A handle that started a cluster ends it, also when its process dies.

mod control;

use self::control::Control;
use super::access::{Access, NODE_NAME, User};
use super::inside::NODE_ADDRESS;
use super::lab::{self, Lab};
use super::node;
use super::parts::{self, API_PORT, Addresses};
use super::programs::Programs;
use super::supervisor::{Request, Service};
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::packages;
use crate::tools;
use crate::workspace::Workspace;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prefix of the directories of tests' clusters, in the system's temporary directory.
const PREFIX: &str = "wasmount-cluster-";

/// The module with the custom resources of snapshots.
const SNAPSHOT_CLIENT: &str = "github.com/kubernetes-csi/external-snapshotter/client/v8";

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    lab: Lab,
    programs: Programs,
    access: Access,
    control: Control,
    /// Whether the cluster ends with this handle.
    owned: bool,
}

impl Cluster {
    /// Starts one that ends with this handle, in the system's temporary directory, and waits until its node is ready. The leftovers of crashed
    /// clusters are removed before.
    pub async fn start(workspace: &Workspace) -> Result<Self, Failure> {
        lab::sweep(&std::env::temp_dir(), PREFIX)?;
        let root = files::temporary(PREFIX)?.keep();
        Self::start_in(workspace, &root).await
    }

    /// The same in a directory of the caller's choice, for a cluster that may stay ([`Self::own`]).
    pub async fn start_in(workspace: &Workspace, root: &Path) -> Result<Self, Failure> {
        Lab::at(root)?.clean()?;
        let mut cluster = Self::begin(workspace, root)?;
        cluster.own(true)?;
        cluster.bring_up(workspace).await?;
        Ok(cluster)
    }

    /// The cluster that runs in this directory.
    pub fn find(workspace: &Workspace, root: &Path) -> Result<Option<Self>, Failure> {
        let lab = Lab::at(root)?;
        if !lab.is_used() {
            return Ok(None);
        }
        Ok(Some(Self {
            control: Control::connect(&lab)?,
            access: Access::of(lab.root())?,
            programs: Programs::build(workspace)?,
            lab,
            owned: false,
        }))
    }

    /// Creates the namespaces, with nothing in them yet.
    fn begin(workspace: &Workspace, root: &Path) -> Result<Self, Failure> {
        needs_root()?;
        packages::install(packages::CLUSTER)?;
        let programs = Programs::build(workspace)?;
        let lab = Lab::at(root)?;
        lab.create()?;
        let (host, listener) = outside()?;
        let access = Access::create(lab.root(), SocketAddrV4::new(host, API_PORT))?;
        let control = Control::start(&workspace.own_program(), &lab, listener)?;
        Ok(Self {
            lab,
            programs,
            access,
            control,
            owned: false,
        })
    }

    /// Sets whether it ends with this handle, and with our process.
    pub fn own(&mut self, owned: bool) -> Result<(), Failure> {
        self.owned = owned;
        self.order(Request::Own(owned))
    }

    fn order(&self, request: Request) -> Result<(), Failure> {
        self.control.send(&request).map(drop)
    }

    /// Starts all parts of Kubernetes.
    async fn bring_up(&self, workspace: &Workspace) -> Result<(), Failure> {
        let (programs, lab, access) = (&self.programs, &self.lab, &self.access);
        let at = Addresses {
            host: *access.server.ip(),
            bind: Ipv4Addr::UNSPECIFIED,
            advertise: NODE_ADDRESS,
            port: API_PORT,
        };
        self.run(parts::etcd(programs, &at, &lab.root().join("etcd")))?;
        self.run(node::containerd(lab)?)?;
        self.run(parts::api_server(programs, &at, access))?;
        for image in node::images(lab.root())? {
            self.import(&image).await?;
        }
        self.api_ready().await?;
        self.run(parts::controller_manager(programs, access))?;
        self.run(parts::scheduler(programs, access))?;
        lab.make_control_groups()?;
        self.run(node::kubelet(programs, lab, access)?)?;
        self.define_snapshots(workspace)?;
        self.run(parts::snapshot_controller(programs, access))?;
        self.ready().await
    }

    /// Starts a process in the cluster, which is restarted whenever it ends unexpectedly; its log is `<lab>/log/<name>.log`.
    pub fn run(&self, service: Service) -> Result<(), Failure> {
        self.order(Request::Start(service))
    }

    /// Stops a part (`etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `containerd`, `kubelet`, `snapshot-controller`) or
    /// a process of [`Self::run`], as its operator does; it stays stopped until [`Self::start_again`].
    pub fn stop(&self, name: &str) -> Result<(), Failure> {
        self.order(Request::Stop(name.to_owned()))
    }

    /// The same with SIGKILL.
    pub fn kill(&self, name: &str) -> Result<(), Failure> {
        self.order(Request::Kill(name.to_owned()))
    }

    /// Starts a stopped or killed process with its earlier command line; a running one is killed before.
    pub fn start_again(&self, name: &str) -> Result<(), Failure> {
        self.order(Request::StartAgain(name.to_owned()))
    }

    /// The process id, inside, of a running part.
    pub fn id(&self, name: &str) -> Result<Option<u32>, Failure> {
        self.control.send(&Request::Id(name.to_owned()))
    }

    /// The supervisor's process id in our PID namespace.
    pub fn supervisor_id(&self) -> u32 {
        self.control.id
    }

    /// The address of etcd, inside.
    pub fn etcd(&self) -> String {
        parts::etcd_clients(*self.access.server.ip())
    }

    /// Runs a program inside, in the lab's directory, with the cluster's programs on its PATH; arguments may follow.
    pub fn enter(&self, program: &str) -> Command {
        let mut path = self.programs.directory().as_os_str().to_owned();
        path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
        let mut chdir = std::ffi::OsString::from("--chdir=");
        // nsenter changes to the root directory when it enters a mount namespace.
        chdir.push(self.lab.root());
        let mut command = Command::new("nsenter");
        command
            .env("PATH", path)
            .args(["--mount", "--net", "--pid", "--uts", "--target"])
            .arg(self.control.id.to_string())
            .args(["--", "env"])
            .arg(chdir)
            .arg(program);
        command
    }

    /// Imports an image into containerd (a file of `cargo xtask image`, `docker save` or the like).
    pub async fn import(&self, image: &Path) -> Result<(), Failure> {
        // containerd may have been started a moment ago.
        super::wait(async || {
            let mut command = self.enter("ctr");
            command
                .args(["--address", node::CONTAINERD])
                .args(["--namespace", node::CONTAINERD_NAMESPACE])
                .args(["images", "import"])
                .arg(image);
            command::read(&mut command).map(drop)
        })
        .await
    }

    /// A client with the administrator's credentials, usable from outside.
    pub async fn client(&self) -> Result<Client, Failure> {
        super::client(&self.kubeconfig(User::Admin)).await
    }

    /// A file for `--kubeconfig`, inside and outside.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.access.kubeconfig(user)
    }

    /// A file for `--kubeconfig` with this token, such as that of a service account.
    pub fn kubeconfig_of(&self, name: &str, token: &str) -> Result<PathBuf, Failure> {
        self.access.kubeconfig_of(name, token)
    }

    /// kubectl as the administrator; arguments may follow.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.programs.path("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig(User::Admin));
        command
    }

    /// Its directory.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Its programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Waits until the API server is ready, also after a fault.
    pub async fn api_ready(&self) -> Result<(), Failure> {
        super::wait(async || super::ready(&self.client().await?).await).await
    }

    /// Waits until pods can run: the node is ready, and the default namespace has its service account.
    pub async fn ready(&self) -> Result<(), Failure> {
        super::wait(async || {
            let client = self.client().await?;
            let node = Api::<Node>::all(client.clone()).get(NODE_NAME).await;
            let node = node.map_err(Failure::cannot("see the node"))?;
            if !is_ready(&node) {
                return Err(Failure::Unexpected(format!(
                    "the node is not ready: {}",
                    self.lab.log("kubelet").display()
                )));
            }
            Api::<ServiceAccount>::default_namespaced(client)
                .get("default")
                .await
                .map(drop)
                .map_err(Failure::cannot("see the default service account"))
        })
        .await
    }

    /// Ends the cluster and removes its leftovers.
    pub fn end(mut self) -> Result<(), Failure> {
        self.remove()
    }

    fn remove(&mut self) -> Result<(), Failure> {
        self.owned = false;
        self.control.end(&self.lab)?;
        self.lab.clean()
    }

    /// Applies the custom resource definitions of snapshots and of groups of them.
    fn define_snapshots(&self, workspace: &Workspace) -> Result<(), Failure> {
        let directory = tools::SNAPSHOT_CONTROLLER
            .sources_of(workspace, SNAPSHOT_CLIENT)?
            .join("config/crd");
        let mut command = self.kubectl();
        command.args(["apply", "--server-side"]);
        for file in files::entries(&directory)? {
            // The other files there are for kustomize.
            let name = file.file_name().unwrap_or_default();
            if name.to_string_lossy().contains("snapshot") {
                command.arg("--filename").arg(file);
            }
        }
        command::read(&mut command)?;
        let mut wait = self.kubectl();
        wait.args(["wait", "--for", "condition=established", "crd", "--all"]);
        command::read(&mut wait).map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.owned {
            // The error cannot be reported in drop; the next start removes what is left now.
            let _ = self.remove();
        }
    }
}

/// A socket for the API server in our network namespace, at an address of its own.
fn outside() -> Result<(Ipv4Addr, TcpListener), Failure> {
    super::loopback_addresses()
        .find_map(|host| Some((host, TcpListener::bind((host, API_PORT)).ok()?)))
        .ok_or_else(|| {
            Failure::missing(
                format!("a loopback address with a free port {API_PORT}"),
                "something listens on that port of all addresses: end it",
            )
        })
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|it| it.conditions.as_ref());
    conditions
        .flatten()
        .any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Fails without root.
pub fn needs_root() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::missing(
        "root",
        "a cluster mounts and makes namespaces: run this as root",
    ))
}

/// Ends the cluster in this directory, if one runs there, and removes its leftovers or those of a crashed one.
pub fn remove(root: &Path) -> Result<(), Failure> {
    let lab = Lab::at(root)?;
    if lab.is_used() {
        Control::connect(&lab)?.end(&lab)?;
    }
    lab.clean()
}
