//! The Kubernetes objects that tests create.

use serde_json::{Value, json};
use xtask::cluster::BUSYBOX_IMAGE;

/// Exits immediately on SIGTERM, unlike a `sleep` that is process 1.
const IDLE: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

/// A volume of a pod, and its location: a file system at `/<name>`, a device at `/dev/<name>`.
#[derive(Debug, Clone)]
pub enum Volume {
    /// The file system of a claim of this name.
    Claim(&'static str),
    /// The device of a claim of this name.
    Device(&'static str),
    /// An inline ephemeral volume.
    Inline {
        /// Its name in the pod.
        name: &'static str,
        /// Its driver.
        driver: &'static str,
        /// `volumeAttributes`.
        attributes: Value,
    },
}

/// A PersistentVolumeClaim, completed by the test's class.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its name.
    pub name: &'static str,
    /// The StorageClass.
    pub class: &'static str,
    /// A Kubernetes quantity.
    pub size: &'static str,
    /// The only entry of `accessModes`.
    pub access: &'static str,
    /// `Filesystem` or `Block`.
    pub mode: &'static str,
    /// Kind and name of its data source.
    pub source: Option<(&'static str, String)>,
}

impl Claim {
    /// A claim with a file system for the pods of one node.
    pub fn new(name: &'static str, class: &'static str, size: &'static str) -> Self {
        Self {
            name,
            class,
            size,
            access: "ReadWriteOnce",
            mode: "Filesystem",
            source: None,
        }
    }

    /// The object.
    pub fn object(&self) -> Value {
        let source = self.source.as_ref().map(|(kind, name)| {
            let group = (*kind == "VolumeSnapshot").then_some("snapshot.storage.k8s.io");
            json!({ "apiGroup": group, "kind": kind, "name": name })
        });
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": self.name, "labels": { "group": "one" } },
            "spec": {
                "storageClassName": self.class,
                "accessModes": [self.access],
                "volumeMode": self.mode,
                "resources": { "requests": { "storage": self.size } },
                "dataSource": source,
            },
        })
    }
}

/// A pod that waits for commands, with these volumes; `settings` are added to its specification.
pub fn pod(name: &str, volumes: &[Volume], settings: &Value) -> Value {
    let claim = |name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
    let mut sources = Vec::new();
    let mut mounts = Vec::new();
    let mut devices = Vec::new();
    for volume in volumes {
        match volume {
            Volume::Claim(name) => {
                sources.push(claim(*name));
                mounts.push(json!({ "name": name, "mountPath": format!("/{name}") }));
            }
            Volume::Device(name) => {
                sources.push(claim(*name));
                devices.push(json!({ "name": name, "devicePath": format!("/dev/{name}") }));
            }
            Volume::Inline {
                name,
                driver,
                attributes,
            } => {
                sources.push(json!({
                    "name": name,
                    "csi": { "driver": driver, "volumeAttributes": attributes },
                }));
                mounts.push(json!({ "name": name, "mountPath": format!("/{name}") }));
            }
        }
    }
    let mut spec = json!({
        // There is no network in the cluster, and none is needed.
        "hostNetwork": true,
        "terminationGracePeriodSeconds": 2,
        "containers": [{
            "name": "main",
            "image": BUSYBOX_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", IDLE],
            "volumeMounts": mounts,
            "volumeDevices": devices,
        }],
        "volumes": sources,
    });
    if let (Some(spec), Some(settings)) = (spec.as_object_mut(), settings.as_object()) {
        spec.extend(settings.clone());
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

/// A StorageClass with volumes that are created on the node of the first pod.
pub fn storage_class(name: &str, driver: &str, fs_type: &str, parameters: &Value) -> Value {
    let mut all = json!({ "csi.storage.k8s.io/fstype": fs_type });
    if let (Some(all), Some(parameters)) = (all.as_object_mut(), parameters.as_object()) {
        all.extend(parameters.clone());
    }
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": driver,
        "parameters": all,
        "allowVolumeExpansion": true,
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// The snapshot classes of a driver: for snapshots of one volume and of groups.
pub fn snapshot_classes(name: &str, driver: &str) -> [Value; 2] {
    let class = |group: &str, kind: &str| {
        json!({
            "apiVersion": format!("{group}.storage.k8s.io/v1"),
            "kind": kind,
            "metadata": { "name": name },
            "driver": driver,
            "deletionPolicy": "Delete",
        })
    };
    [
        class("snapshot", "VolumeSnapshotClass"),
        class("groupsnapshot", "VolumeGroupSnapshotClass"),
    ]
}

/// A snapshot of a claim.
pub fn snapshot(name: &str, class: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": { "name": name },
        "spec": {
            "volumeSnapshotClassName": class,
            "source": { "persistentVolumeClaimName": claim },
        },
    })
}

/// A snapshot of all claims of [`Claim::object`] in a namespace.
pub fn group_snapshot(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshot",
        "metadata": { "name": name },
        "spec": {
            "volumeGroupSnapshotClassName": class,
            "source": { "selector": { "matchLabels": { "group": "one" } } },
        },
    })
}
