//! The drivers that tests use, and the host that serves all of them beside the cluster's kubelet: documents, pools, command line. Apart from the
//! hosts of other tests because this one is where an installed one is, in the usual directories of the cluster's own namespaces.
//!
//! It starts nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cluster::access::{NODE_NAME, User};
use xtask::cluster::{Cluster, Service};
use xtask::command;
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// Of the pools' file system (a sparse file), in bytes. Claims that must not fit ask for more.
const POOL_BYTES: u64 = 4 << 30;

/// The default of `--data-dir`; relative paths of pools lie there.
const DATA: &str = "/var/lib/wasmount";

/// Kubelet's directory.
pub const KUBELET: &str = "/var/lib/kubelet";

/// The host, as a service of the cluster.
pub const HOST: &str = "wasmount";

/// A driver name, the plugin that serves it, and what its document says besides.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// CSI's name.
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

/// The same, for one volume a node.
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

/// Images of the node, which the node alone grows, and which nobody attaches.
pub const LOCAL_IMAGES: Driver = Driver {
    name: "local-images.wasmount.io",
    plugin: "local-images",
    more: "grants: { pools: { images: { path: pools/local-images } } }
  csiDriver: { storageCapacity: true, fsGroupPolicy: File }",
};

/// All of them.
pub const ALL: [Driver; 4] = [HOSTPATH, LIMITED, LOCAL_IMAGES, PODFILES];

impl Driver {
    /// Its CSI socket.
    pub fn socket(&self) -> PathBuf {
        let folder = Path::new(KUBELET).join("plugins").join(self.name);
        folder.join("csi.sock")
    }

    fn document(&self, workspace: &Workspace) -> String {
        let component = workspace.component(self.plugin);
        format!(
            "apiVersion: wasmount.io/v1alpha1\n\
             kind: StorageBackend\n\
             metadata: {{ name: {} }}\n\
             spec:\n  driverName: {}\n  plugin: {{ path: {component:?} }}\n  {}\n",
            self.plugin, self.name, self.more,
        )
    }
}

/// A disk of their own for the pools, which goes with the cluster. It shares blocks, so that groups can be snapshotted.
pub fn mount_pools(cluster: &Cluster) -> Result<(), Failure> {
    let image = cluster.lab().root().join("pools.xfs");
    let pools = pools();
    File::create(&image)
        .and_then(|file| file.set_len(POOL_BYTES))
        .map_err(Failure::io(format!("make {}", image.display())))?;
    command::read(Command::new("mkfs.xfs").arg("-q").arg(&image))?;
    command::read(cluster.enter("mkdir").arg("-p").arg(&pools))?;
    let mut mount = cluster.enter("mount");
    mount.args(["-o", "loop"]);
    command::read(mount.arg(&image).arg(&pools)).map(drop)
}

/// Where all pools are.
pub fn pools() -> PathBuf {
    Path::new(DATA).join("pools")
}

/// The host with all drivers; their documents are written. A fault may come at any time, so who ends it decides when it begins again.
pub fn host(workspace: &Workspace, cluster: &Cluster) -> Result<Service, Failure> {
    let program = workspace.host_program();
    let mut line = vec![program.display().to_string(), "serve".to_owned()];
    for driver in ALL {
        let path = cluster.lab().root().join(format!("{}.yaml", driver.name));
        fs::write(&path, driver.document(workspace))
            .map_err(Failure::io(format!("write {}", path.display())))?;
        line.extend(["--backend".to_owned(), path.display().to_string()]);
    }
    let kubeconfig = cluster.kubeconfig(User::Admin).display().to_string();
    let flags = ["--node-id", NODE_NAME, "--kubeconfig", &kubeconfig];
    line.extend(flags.map(str::to_owned));
    Ok(Service {
        name: HOST.to_owned(),
        line,
        environment: [].into(),
        again: true,
    })
}
