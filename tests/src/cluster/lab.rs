//! The fixture that all tests of a program share: one cluster with its drivers, their classes and sidecars.

use crate::cluster::drivers::{
    self, Driver, FAULTED, HOSTPATH, KILLED, LIMITED, LOCAL_IMAGES, SPLIT,
};
use crate::cluster::listing;
use crate::cluster::objects;
use crate::cluster::sidecars::{PROVISIONER, Sidecars};
use crate::cluster::wait::wait_for;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use xtask::cluster::{Cluster, Service};
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// StorageClasses, each with its driver, file system and kind of volume.
const CLASSES: [(&str, Driver, &str, Option<&str>); 11] = [
    ("ext4", HOSTPATH, "ext4", Some("image")),
    ("xfs", HOSTPATH, "xfs", Some("image")),
    ("directory", HOSTPATH, "", Some("directory")),
    ("limited", LIMITED, "ext4", Some("image")),
    ("local-ext4", LOCAL_IMAGES, "ext4", None),
    ("local-xfs", LOCAL_IMAGES, "xfs", None),
    ("split", SPLIT, "ext4", None),
    ("faulted-ext4", FAULTED, "ext4", Some("image")),
    ("faulted-xfs", FAULTED, "xfs", Some("image")),
    ("faulted-directory", FAULTED, "", Some("directory")),
    ("killed-ext4", KILLED, "ext4", Some("image")),
];

/// The sidecars that tests need of each driver: each is a process of 50 MB.
const SIDECARS: [(Driver, &[&str]); 6] = [
    (
        HOSTPATH,
        &[
            PROVISIONER,
            "csi-attacher",
            "csi-resizer",
            "csi-snapshotter",
        ],
    ),
    (LIMITED, &[PROVISIONER, "csi-attacher"]),
    (LOCAL_IMAGES, &[PROVISIONER, "csi-resizer"]),
    (SPLIT, &[PROVISIONER]),
    (FAULTED, &[PROVISIONER, "csi-attacher"]),
    (KILLED, &[PROVISIONER, "csi-attacher"]),
];

/// Name of the snapshot classes of hostpath.
pub const SNAPSHOTS: &str = "hostpath";

/// The shared fixture; it exists as long as the program runs.
pub struct Lab {
    client: Client,
    cluster: Cluster,
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A client has no useful `Debug` output.
        let mut shown = f.debug_struct("Lab");
        shown
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Lab {
    /// Starts the cluster, the hosts and the sidecars, and waits until kubelet knows the drivers.
    pub async fn start() -> Result<Self, Failure> {
        let workspace = Workspace::locate()?;
        let cluster = Cluster::start(&workspace).await?;
        let lab = Self {
            client: cluster.client().await?,
            cluster,
        };
        drivers::mount_pools(&lab.cluster)?;
        drivers::describe(&workspace, &lab.cluster)?;
        // First, since it compiles what hosts then find compiled.
        let mut services = lab.sidecars(&workspace).await?;
        services.push(drivers::host(&workspace, &lab.cluster)?);
        services.extend(drivers::separate_hosts(&workspace, &lab.cluster)?);
        services.extend(drivers::split(&workspace, &lab.cluster)?);
        for service in services {
            lab.cluster.run(service)?;
        }
        lab.create_classes().await?;
        lab.registered(&drivers::ALL).await?;
        Ok(lab)
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The cluster, for faults of its parts.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The log of a host, including earlier processes.
    pub fn log(&self, host: &str) -> String {
        fs::read_to_string(self.cluster.lab().log(host)).unwrap_or_default()
    }

    /// Server-side apply of an object of any kind; in the namespace, if the kind has one.
    pub async fn apply(
        &self,
        namespace: &str,
        manager: &str,
        object: Value,
    ) -> Result<DynamicObject, Failure> {
        let mut object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| Failure::Unexpected(format!("a test's object is none: {error}")))?;
        let types = object.types.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let what = format!("apply {} {name}", types.kind);
        let kind = GroupVersionKind::try_from(&types)
            .map_err(|error| Failure::Unexpected(format!("cannot {what}: {error}")))?;
        let (resource, capabilities) = kube::discovery::pinned_kind(&self.client, &kind)
            .await
            .map_err(Failure::cannot(&what))?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Namespaced => {
                object.metadata.namespace = Some(namespace.to_owned());
                Api::namespaced_with(self.client(), namespace, &resource)
            }
            Scope::Cluster => Api::all_with(self.client(), &resource),
        };
        api.patch(&name, &PatchParams::apply(manager), &Patch::Apply(&object))
            .await
            .map_err(Failure::cannot(&what))
    }

    /// Restarts those of these parts that a failed test left stopped, since other tests follow.
    pub fn heal(&self, parts: &[&str]) -> Result<(), Failure> {
        for part in parts {
            if self.cluster.id(part)?.is_none() {
                self.cluster.start_again(part)?;
            }
        }
        Ok(())
    }

    /// Stops the cluster, and everything that runs in it.
    pub fn end(self) -> Result<(), Failure> {
        self.cluster.end()
    }

    /// Waits until CSINode and Node match the answers of these drivers: then their hosts are running and registered.
    pub async fn registered(&self, drivers: &[Driver]) -> Result<(), Failure> {
        let what = "CSINode and Node say what the drivers say";
        wait_for(&self.client, "default", what, async || {
            listing::is_true(&self.client, &self.cluster, drivers).await
        })
        .await
    }

    /// Creates the classes. The host itself creates the CSIDriver objects.
    async fn create_classes(&self) -> Result<(), Failure> {
        let mut all = Vec::new();
        for (name, driver, fs_type, kind) in CLASSES {
            let parameters = kind.map_or(json!({}), |kind| json!({ "kind": kind }));
            all.push(objects::storage_class(
                name,
                driver.name,
                fs_type,
                &parameters,
            ));
        }
        all.extend(objects::snapshot_classes(SNAPSHOTS, HOSTPATH.name));
        for object in all {
            self.apply("", "wasmount-tests", object).await?;
        }
        Ok(())
    }

    async fn sidecars(&self, workspace: &Workspace) -> Result<Vec<Service>, Failure> {
        let mut services = Vec::new();
        for (driver, sidecars) in SIDECARS {
            let document = driver.document(&self.cluster);
            let admitted =
                Sidecars::admit(&driver, &document, workspace, &self.cluster, self.client());
            let admitted = admitted.await?;
            for sidecar in sidecars {
                services.push(admitted.service(sidecar)?);
            }
        }
        Ok(services)
    }
}
