//! The drivers that tests use, and the host that serves all of them beside the cluster's kubelet: documents, pools, command line.
//!
//! It starts nothing.

use crate::compiled::Components;
use crate::documents::head_of;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cluster::access::{NODE_NAME, User};
use xtask::cluster::{Cluster, Service};
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
use xtask::workspace::Workspace;

/// Size of the pools' file system (a sparse file), in bytes. Claims that must not fit ask for more.
const POOL_BYTES: u64 = 4 << 30;

/// The default of `--data-dir`, [`data_of`] the host of this name; relative paths of pools are below it.
const DATA: &str = "/var/lib/wasmount";

/// Kubelet's directory.
pub const KUBELET: &str = "/var/lib/kubelet";

/// The host, as a service of the cluster.
pub const HOST: &str = "wasmount";

/// The host of [`FAULTED`].
pub const FAULTED_HOST: &str = "wasmount-faulted";

/// The host of [`KILLED`].
pub const KILLED_HOST: &str = "wasmount-killed";

/// The host of [`SPLIT`].
pub const SPLIT_HOST: &str = "wasmount-split";

/// The mounter of [`SPLIT_HOST`].
pub const MOUNTER: &str = "wasmount-mounter";

/// The host that writes CSINode itself.
pub const MANAGING_HOST: &str = "wasmount-managing";

/// The mounter's socket.
const MOUNTER_SOCKET: &str = "/run/wasmount-split/mounter.sock";

/// A driver name, the plugin that serves it, and the rest of its document.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The CSI driver name.
    pub name: &'static str,
    /// A folder of `plugins/`.
    plugin: &'static str,
    /// The rest of the document's specification.
    more: &'static str,
}

/// Images and directories of a pool, with all of CSI.
pub const HOSTPATH: Driver = Driver {
    name: "hostpath.wasmount.io",
    plugin: "hostpath",
    more: "grants:
    pools: { volumes: { path: pools/hostpath, fullCopies: true } }
    filesystems: [{ type: tmpfs, maxBytes: 64Mi }]
  csiDriver: { volumeLifecycleModes: [Persistent, Ephemeral] }",
};

/// The same plugin, limited to one volume on each node.
pub const LIMITED: Driver = Driver {
    name: "limited.wasmount.io",
    plugin: "hostpath",
    more: "grants: { pools: { volumes: { path: pools/limited, fullCopies: true } } }
  settings: { maxVolumesPerNode: '1' }",
};

/// Identity and tokens of a pod.
pub const PODFILES: Driver = Driver {
    name: "podfiles.wasmount.io",
    plugin: "podfiles",
    more: "csiDriver:
    volumeLifecycleModes: [Ephemeral]
    podInfoOnMount: true
    requiresRepublish: true
    tokenRequests: [{ audience: '', expirationSeconds: 3600 }]
    fsGroupPolicy: None",
};

/// Images of the node, which are expanded on the node alone, and which are not attached.
pub const LOCAL_IMAGES: Driver = Driver {
    name: "local-images.wasmount.io",
    plugin: "local-images",
    more: "grants: { pools: { images: { path: pools/local-images } } }
  csiDriver: { storageCapacity: true, fsGroupPolicy: File }",
};

/// The same plugin, served by a host that may not mount, and its mounter. Its component is a separate copy, which a test may break.
pub const SPLIT: Driver = Driver {
    name: "split.wasmount.io",
    plugin: "local-images",
    more: "grants: { pools: { images: { path: /var/lib/wasmount/pools/split } } }
  csiDriver: { storageCapacity: true, fsGroupPolicy: File }",
};

/// The plugin of [`HOSTPATH`], served by a host that tests stop and kill while others use the other hosts.
pub const FAULTED: Driver = Driver {
    name: "faulted.wasmount.io",
    plugin: "hostpath",
    more: "grants: { pools: { volumes: { path: /var/lib/wasmount/pools/faulted } } }",
};

/// The same once more, so that two such tests run at a time.
pub const KILLED: Driver = Driver {
    name: "killed.wasmount.io",
    plugin: "hostpath",
    more: "grants: { pools: { volumes: { path: /var/lib/wasmount/pools/killed } } }",
};

/// The drivers of the host that also mounts.
pub const WHOLE: [Driver; 4] = [HOSTPATH, LIMITED, LOCAL_IMAGES, PODFILES];

/// The drivers of the host that writes CSINode itself: one with a limit and one without.
pub const MANAGED: [Driver; 2] = [HOSTPATH, LIMITED];

/// All drivers.
pub const ALL: [Driver; 7] = [
    HOSTPATH,
    LIMITED,
    LOCAL_IMAGES,
    PODFILES,
    FAULTED,
    KILLED,
    SPLIT,
];

impl Driver {
    /// A driver of a separate host.
    pub(super) const fn new(name: &'static str, plugin: &'static str, more: &'static str) -> Self {
        Self { name, plugin, more }
    }

    /// Its CSI socket.
    pub fn socket(&self) -> PathBuf {
        let folder = Path::new(KUBELET).join("plugins").join(self.name);
        folder.join("csi.sock")
    }

    /// Its document.
    pub fn document(&self, cluster: &Cluster) -> PathBuf {
        cluster.lab().root().join(format!("{}.yaml", self.name))
    }

    /// The name of its objects: `metadata.name` of its document.
    pub fn instance(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    /// Writes its document; returns the file.
    pub(super) fn describe(&self, cluster: &Cluster, component: &Path) -> Result<String, Failure> {
        let path = self.document(cluster);
        let head = head_of(self.instance(), self.name, component);
        files::write(&path, format!("{head}  {}\n", self.more))?;
        Ok(path.display().to_string())
    }
}

/// Mounts a separate disk for the pools, which is removed with the cluster. Its file system can share blocks, so group snapshots are possible.
pub fn mount_pools(cluster: &Cluster) -> Result<(), Failure> {
    let image = cluster.lab().root().join("pools.xfs");
    let pools = pools();
    File::create(&image)
        .and_then(|file| file.set_len(POOL_BYTES))
        .map_err(Failure::cannot(format!("make {}", image.display())))?;
    command::read(Command::new("mkfs.xfs").arg("-q").arg(&image))?;
    command::read(cluster.enter("mkdir").arg("-p").arg(&pools))?;
    let mut mount = cluster.enter("mount");
    mount.args(["-o", "loop"]);
    command::read(mount.arg(&image).arg(&pools)).map(drop)
}

/// The directory of all pools.
pub fn pools() -> PathBuf {
    Path::new(DATA).join("pools")
}

/// Writes the documents of all drivers.
pub fn describe(workspace: &Workspace, cluster: &Cluster) -> Result<(), Failure> {
    let component = split_component(cluster);
    files::copy(&workspace.component(SPLIT.plugin), &component)?;
    SPLIT.describe(cluster, &component)?;
    for driver in WHOLE.iter().chain([&FAULTED, &KILLED]) {
        driver.describe(cluster, &workspace.component(driver.plugin))?;
    }
    Ok(())
}

/// The host that also mounts. A fault may happen at any time, so the test that ends the host decides when it starts again.
pub fn host(workspace: &Workspace, cluster: &Cluster) -> Result<Service, Failure> {
    let host = serve(workspace, cluster, HOST);
    with_backends(host, cluster, &documents(cluster, &WHOLE))
}

/// The hosts that tests kill.
pub fn separate_hosts(workspace: &Workspace, cluster: &Cluster) -> Result<[Service; 2], Failure> {
    let host = |name: &str, driver: Driver| {
        let host = separate_host(workspace, cluster, name);
        with_backends(host, cluster, &documents(cluster, &[driver]))
    };
    Ok([host(FAULTED_HOST, FAULTED)?, host(KILLED_HOST, KILLED)?])
}

/// A host that may not mount, and its mounter.
pub fn split(workspace: &Workspace, cluster: &Cluster) -> Result<[Service; 2], Failure> {
    let document = SPLIT.document(cluster);
    let host = serve(workspace, cluster, SPLIT_HOST)
        .flag("--mounter", format!("unix:{MOUNTER_SOCKET}"))
        .flag("--data-dir", data_of(SPLIT_HOST))
        .flag("--listen-health", "off")
        .flag("--backend", &document);
    let mounter = Service::new(MOUNTER, workspace.host_program())
        .argument("mounter")
        .flag("--backend", &document)
        .flag("--client-uid", "0")
        .flag("--data-dir", data_of(MOUNTER))
        .flag("--run-dir", "/run/wasmount-mounter")
        .flag("--socket", MOUNTER_SOCKET);
    command::read(cluster.enter("mkdir").args(["-p", "/run/wasmount-split"]))?;
    Ok([mounter, host])
}

/// The component of [`SPLIT`].
pub fn split_component(cluster: &Cluster) -> PathBuf {
    cluster.lab().root().join("split.wasm")
}

/// A host for a Node without a kubelet, which reports for it what the real Node's host reports; it uses the documents of [`host`].
pub fn managing_host(
    workspace: &Workspace,
    cluster: &Cluster,
    node: &str,
) -> Result<Service, Failure> {
    // The host creates only the last component of its socket directory.
    command::read(
        cluster
            .enter("mkdir")
            .args(["-p", "/run/wasmount-managing"]),
    )?;
    let host = separate_host(workspace, cluster, MANAGING_HOST)
        .flag("--csinode", "manage")
        .flag("--registration", "off")
        .flag("--csidriver", "off")
        .flag("--node-name", node)
        .flag("--socket-dir", "/run/wasmount-managing/sockets");
    with_backends(host, cluster, &documents(cluster, &MANAGED))
}

/// A host without backends yet, with its own directories.
pub(super) fn separate_host(workspace: &Workspace, cluster: &Cluster, name: &str) -> Service {
    serve(workspace, cluster, name)
        .flag("--data-dir", data_of(name))
        .flag("--run-dir", format!("/run/{name}"))
        .flag("--listen-health", "off")
}

/// `--data-dir` of a host.
pub(super) fn data_of(host: &str) -> String {
    format!("/var/lib/{host}")
}

/// The host with these documents, whose code it finds compiled if it was before, as after a restart.
pub(super) fn with_backends(
    host: Service,
    cluster: &Cluster,
    documents: &[PathBuf],
) -> Result<Service, Failure> {
    let name = &host.name;
    Components::seed(&cluster.lab().lib().join(name), documents)
        .map_err(Failure::cannot(format!("give {name} compiled code")))?;
    let add = |host: Service, document| host.flag("--backend", document);
    Ok(documents.iter().fold(host, add))
}

fn documents(cluster: &Cluster, drivers: &[Driver]) -> Vec<PathBuf> {
    drivers.iter().map(|it| it.document(cluster)).collect()
}

/// A host of this name, with the arguments that all hosts have.
fn serve(workspace: &Workspace, cluster: &Cluster, name: &str) -> Service {
    Service::new(name, workspace.host_program())
        .argument("serve")
        .flag("--node-id", NODE_NAME)
        .flag("--kubeconfig", cluster.kubeconfig(User::Admin))
}
