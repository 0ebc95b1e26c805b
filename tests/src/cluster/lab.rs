//! The fixture that all tests of a program share: one cluster with its drivers, their classes and sidecars.
//!
//! Tests of flows run concurrently; a test that injects a fault, which would affect all others, runs alone.

use crate::cluster::drivers::{
    self, Driver, HOST, HOSTPATH, LIMITED, LOCAL_IMAGES, MOUNTER, SPLIT, SPLIT_HOST,
};
use crate::cluster::listing;
use crate::cluster::objects;
use crate::cluster::sidecars::{self, Sidecar};
use crate::cluster::wait::wait_for;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::fmt;
use std::fs;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use xtask::cluster::Cluster;
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// StorageClasses, each with its driver, file system and kind of volume.
const CLASSES: [(&str, Driver, &str, Option<&str>); 7] = [
    ("ext4", HOSTPATH, "ext4", Some("image")),
    ("xfs", HOSTPATH, "xfs", Some("image")),
    ("directory", HOSTPATH, "", Some("directory")),
    ("limited", LIMITED, "ext4", Some("image")),
    ("local-ext4", LOCAL_IMAGES, "ext4", None),
    ("local-xfs", LOCAL_IMAGES, "xfs", None),
    ("split", SPLIT, "ext4", None),
];

/// Name of the snapshot classes of hostpath.
pub const SNAPSHOTS: &str = "hostpath";

/// The shared fixture; it exists as long as the program runs.
pub struct Lab {
    client: Client,
    turns: RwLock<()>,
    cluster: Cluster,
}

/// The right to run, held while a test runs.
#[derive(Debug)]
#[allow(missing_docs, reason = "they are what asking for them says")]
pub enum Guard<'a> {
    BesideOthers(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
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
            turns: RwLock::new(()),
            cluster,
        };
        drivers::mount_pools(&lab.cluster)?;
        lab.cluster.run(drivers::host(&workspace, &lab.cluster)?)?;
        for part in drivers::split(&workspace, &lab.cluster)? {
            lab.cluster.run(part)?;
        }
        lab.describe().await?;
        lab.run_sidecars(&workspace).await?;
        lab.registered().await?;
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

    /// The log of the host, including earlier processes.
    pub fn host_log(&self) -> String {
        fs::read_to_string(self.cluster.lab().log(HOST)).unwrap_or_default()
    }

    /// Waits until this test may run beside others.
    pub async fn beside_others(&self) -> Guard<'_> {
        Guard::BesideOthers(self.turns.read().await)
    }

    /// Waits until this test runs alone.
    pub async fn alone(&self) -> Guard<'_> {
        Guard::Alone(self.turns.write().await)
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

    /// Restarts what a failed test left stopped, since other tests follow.
    pub fn heal(&self) -> Result<(), Failure> {
        for part in [
            "etcd",
            "kube-apiserver",
            "kubelet",
            HOST,
            MOUNTER,
            SPLIT_HOST,
        ] {
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

    /// Waits until CSINode and Node match the answers of every driver: then its host is running and registered.
    pub async fn registered(&self) -> Result<(), Failure> {
        let what = "CSINode and Node say what the drivers say";
        wait_for(&self.client, "default", what, async || {
            listing::is_true(&self.client, &self.cluster).await
        })
        .await
    }

    /// Creates the classes. The host itself creates the CSIDriver objects.
    async fn describe(&self) -> Result<(), Failure> {
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

    async fn run_sidecars(&self, workspace: &Workspace) -> Result<(), Failure> {
        use Sidecar::{Attacher, Provisioner, Resizer, Snapshotter};
        let all: [(Driver, &[Sidecar]); 4] = [
            (HOSTPATH, &[Provisioner, Attacher, Resizer, Snapshotter]),
            (LIMITED, &[Provisioner, Attacher]),
            (LOCAL_IMAGES, &[Provisioner, Resizer]),
            (SPLIT, &[Provisioner]),
        ];
        for (driver, sidecars) in all {
            let kubeconfig =
                sidecars::admit(&driver, workspace, &self.cluster, self.client()).await?;
            for sidecar in sidecars {
                let service = sidecar.beside(&driver, &self.cluster, &kubeconfig);
                self.cluster.run(service)?;
            }
        }
        Ok(())
    }
}
