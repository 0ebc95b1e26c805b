//! The classes by which claims reach a driver: storage, snapshots, groups of snapshots. No VolumeAttributesClass: one needs a parameter, and which
//! there are the plugin alone knows.
//!
//! The classes of snapshots are CRDs of external-snapshotter, which the cluster must have; Kubernetes' own API has no type for them.

use super::{Form, Manifest, ManifestsError, Parts};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use wasmount_core::capabilities::ControllerCapability;

impl Parts<'_> {
    pub(super) fn classes(&self) -> Result<Vec<Manifest>, ManifestsError> {
        let backend = self.backend;
        let mut classes = Vec::new();
        if backend.controls(ControllerCapability::CreateDeleteVolume) {
            classes.push(self.storage_class()?);
        }
        if backend.controls(ControllerCapability::CreateDeleteSnapshot) {
            let about = match self.choices.form {
                Form::NodeLocal => {
                    "The cluster's snapshot-controller must run with --enable-distributed-snapshotting: the snapshotter of a volume's node acts."
                }
                Form::Network => {
                    "Of the CRDs and the snapshot-controller of external-snapshotter, once a cluster."
                }
            };
            let of = ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass");
            classes.push(self.snapshot_class(of, about)?);
        }
        if self.groups() {
            // What external-snapshotter 8.6 stores, and later ones serve.
            let of = (
                "groupsnapshot.storage.k8s.io/v1beta2",
                "VolumeGroupSnapshotClass",
            );
            let about = "All volumes of a group lie where one call of the plugin reaches them.";
            classes.push(self.snapshot_class(of, about)?);
        }
        Ok(classes)
    }

    fn storage_class(&self) -> Result<Manifest, ManifestsError> {
        let backend = self.backend;
        let late = backend.has_topology();
        let class = StorageClass {
            metadata: self.cluster_meta(backend.name.clone()),
            provisioner: backend.driver.to_string(),
            parameters: Some(
                [(
                    "csi.storage.k8s.io/fstype".to_owned(),
                    self.choices.fs_type.clone(),
                )]
                .into(),
            ),
            reclaim_policy: Some("Delete".to_owned()),
            allow_volume_expansion: Some(backend.grows()),
            volume_binding_mode: Some(
                if late {
                    "WaitForFirstConsumer"
                } else {
                    "Immediate"
                }
                .to_owned(),
            ),
            ..StorageClass::default()
        };
        let mut about = "A file system is named because kubelet does not apply fsGroup where none is (fsGroupPolicy ReadWriteOnceWithFSType). With \
                         topology a volume waits for its pod, so that it is made where the pod can run."
            .to_owned();
        if self.choices.form == Form::NodeLocal {
            about.push_str(
                " Of a class with Immediate some node with room takes the volume, within 20 s, wherever its pods can run.",
            );
        }
        Manifest::new(about, &class)
    }

    fn snapshot_class(
        &self,
        (api_version, kind): (&str, &str),
        about: &str,
    ) -> Result<Manifest, ManifestsError> {
        let class = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": self.cluster_meta(self.backend.name.clone()),
            "driver": self.backend.driver.as_str(),
            "deletionPolicy": "Delete",
        });
        Manifest::new(about, &class)
    }
}
