//! A driver whose volumes are on a storage system outside of the cluster: an array, or Cinder. A host of its own serves it, and a proxy on the
//! cluster's loopback device leads to the system and counts requests.

use crate::array::Array;
use crate::cinder::{Account, Cinder};
use crate::cluster::drivers::{self, Driver};
use crate::cluster::scene::Scene;
use crate::cluster::sidecars::Sidecars;
use crate::documents::{self, Cloud};
use crate::fault_proxy::{FaultProxy, FaultRate};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use tokio::net::TcpListener;
use xtask::cluster::Cluster;
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// The driver of plugins/array; its classes are named [`Driver::instance`].
pub const ARRAY: Driver = Driver::new("array.wasmount.io", "array", "");

/// The driver of plugins/cinder.
pub const CINDER: Driver = Driver::new("cinder.csi.openstack.org", "cinder", "");

/// The zone of the node and of Cinder's volumes.
const ZONE: &str = "zone-a";

/// A running driver.
#[derive(Debug)]
pub struct Networked<'a> {
    scene: &'a Scene,
    driver: Driver,
    sidecars: Vec<String>,
    proxies: Vec<FaultProxy>,
}

impl<'a> Networked<'a> {
    /// Serves an array.
    pub async fn array(scene: &'a Scene, array: &Array) -> Result<Self, Failure> {
        let cluster = scene.lab().cluster();
        let proxy = proxy(cluster, Ipv4Addr::LOCALHOST, array.address())?;
        let write = |folder: &Path| documents::array_at(folder, proxy.address());
        let document = in_folder(scene, &ARRAY, write)?;
        Self::begin(scene, ARRAY, &document, vec![proxy]).await
    }

    /// Serves an account of a Cinder.
    pub async fn cinder(
        scene: &'a Scene,
        cinder: &Cinder,
        account: &Account,
    ) -> Result<Self, Failure> {
        let cluster = scene.lab().cluster();
        let keystone = proxy(cluster, Ipv4Addr::LOCALHOST, account.keystone().into())?;
        let volumes = proxy(cluster, Ipv4Addr::LOCALHOST, cinder.cinder().into())?;
        let cloud = Cloud {
            keystone: keystone.address(),
            cinder: volumes.address(),
            nova: None,
            credential: account.credential(),
            settings: &[("zone", ZONE)],
        };
        let write = |folder: &Path| documents::cinder_at(folder, &cloud);
        let document = in_folder(scene, &CINDER, write)?;
        Self::begin(scene, CINDER, &document, vec![volumes, keystone]).await
    }

    /// Starts the host and all sidecars that are printed for it, creates the printed classes, and waits until kubelet knows the driver.
    async fn begin(
        scene: &'a Scene,
        driver: Driver,
        document: &Path,
        proxies: Vec<FaultProxy>,
    ) -> Result<Self, Failure> {
        let workspace = Workspace::locate()?;
        let cluster = scene.lab().cluster();
        let client = scene.client();
        let sidecars = Sidecars::admit(&driver, document, &workspace, cluster, client).await?;
        sidecars.apply_classes(cluster)?;
        let host = host(&driver);
        let host = drivers::separate_host(&workspace, cluster, &host);
        let documents = [document.to_owned()];
        cluster.run(drivers::with_backends(host, cluster, &documents)?)?;
        let mut names = Vec::new();
        for service in sidecars.services() {
            names.push(service.name.clone());
            cluster.run(service)?;
        }
        scene.lab().registered(&[driver]).await?;
        Ok(Self {
            scene,
            driver,
            sidecars: names,
            proxies,
        })
    }

    /// How often the storage system answered this request: `POST /api/sessions`.
    pub fn answered(&self, request: &str) -> usize {
        self.proxies.iter().map(|it| it.answered(request)).sum()
    }

    /// Ends the sidecars and the host.
    pub fn end(self) -> Result<(), Failure> {
        let cluster = self.scene.lab().cluster();
        for sidecar in &self.sidecars {
            cluster.stop(sidecar)?;
        }
        cluster.stop(&host(&self.driver))
    }
}

/// The host of a driver, as a service of the cluster.
fn host(driver: &Driver) -> String {
    format!("wasmount-{}", driver.instance())
}

/// Writes a document and its secrets into a folder of its own.
fn in_folder(
    scene: &Scene,
    driver: &Driver,
    write: impl FnOnce(&Path) -> Result<PathBuf, Failure>,
) -> Result<PathBuf, Failure> {
    let folder = scene.lab().cluster().lab().root().join(driver.instance());
    fs::create_dir(&folder).map_err(Failure::cannot(format!("create {}", folder.display())))?;
    write(&folder)
}

/// A proxy that harms no request, at an address of the cluster's node: its processes reach no other. Pods reach [`NODE_ADDRESS`] alone.
///
/// [`NODE_ADDRESS`]: xtask::cluster::inside::NODE_ADDRESS
pub fn proxy(cluster: &Cluster, at: Ipv4Addr, to: SocketAddr) -> Result<FaultProxy, Failure> {
    let path = format!("/proc/{}/ns/net", cluster.supervisor_id());
    let failed = || Failure::cannot(format!("listen in the network namespace {path}"));
    let namespace = File::open(&path).map_err(failed())?;
    // A socket stays in the namespace that it was made in, and so would this thread.
    let listen = move || {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), network)?;
        let listener = std::net::TcpListener::bind((at, 0))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listening = thread::spawn(listen).join();
    let listener: io::Result<_> =
        listening.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
    let listener = listener.and_then(TcpListener::from_std).map_err(failed())?;
    FaultProxy::behind(listener, to, FaultRate { of: 0, seed: 0 })
}
