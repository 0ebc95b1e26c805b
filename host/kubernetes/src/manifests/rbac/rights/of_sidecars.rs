//! What each sidecar asks of the API server, by the capabilities that make it ask.

use super::{READ, Right};
use crate::manifests::sidecars::Kind;
use crate::manifests::{Form, Parts};
use wasmount_core::capabilities::ControllerCapability;

impl Parts<'_> {
    pub(super) fn of_sidecar(&self, kind: Kind) -> Vec<Right> {
        let backend = self.backend;
        let has = |capability| backend.controls(capability);
        let snapshots = has(ControllerCapability::CreateDeleteSnapshot);
        let storage = "storage.k8s.io";
        let snapshot = "snapshot.storage.k8s.io";
        let group = "groupsnapshot.storage.k8s.io";
        let events = Right::new(
            "",
            "events",
            ["list", "watch", "create", "update", "patch"],
            "the sidecars' events",
        );
        let mut rights = Vec::new();
        let mut add = |wanted: bool, right: Right| {
            if wanted {
                rights.push(right);
            }
        };
        match kind {
            Kind::Provisioner => {
                let watches_nodes = backend.has_topology() && self.choices.form == Form::Network;
                let volumes = ["get", "list", "watch", "create", "patch", "delete"];
                let claims = ["get", "list", "watch", "update"];
                add(
                    true,
                    Right::new(
                        "",
                        "persistentvolumes",
                        volumes,
                        "csi-provisioner: makes and deletes them",
                    ),
                );
                add(
                    true,
                    Right::new(
                        "",
                        "persistentvolumeclaims",
                        claims,
                        "csi-provisioner: what is claimed, and its finalizer of clones",
                    ),
                );
                add(
                    true,
                    Right::new(
                        storage,
                        "storageclasses",
                        READ,
                        "csi-provisioner: parameters",
                    ),
                );
                add(true, events);
                add(
                    watches_nodes,
                    Right::new(
                        storage,
                        "csinodes",
                        READ,
                        "csi-provisioner: topology keys of all nodes",
                    ),
                );
                add(
                    watches_nodes,
                    Right::new(
                        "",
                        "nodes",
                        READ,
                        "csi-provisioner: topology labels of all nodes",
                    ),
                );
                let attaches = has(ControllerCapability::PublishUnpublishVolume);
                add(
                    attaches,
                    Right::new(
                        storage,
                        "volumeattachments",
                        READ,
                        "csi-provisioner: no volume is deleted that is attached",
                    ),
                );
                add(
                    snapshots,
                    Right::new(
                        snapshot,
                        "volumesnapshots",
                        claims,
                        "csi-provisioner: the source of a claim, which it protects meanwhile",
                    ),
                );
                add(
                    snapshots,
                    Right::new(
                        snapshot,
                        "volumesnapshotcontents",
                        ["get", "list"],
                        "csi-provisioner: the source of a claim",
                    ),
                );
                let modifies = has(ControllerCapability::ModifyVolume);
                add(
                    modifies,
                    Right::new(
                        storage,
                        "volumeattributesclasses",
                        ["get"],
                        "csi-provisioner: mutable parameters of new volumes",
                    ),
                );
            }
            Kind::Attacher => {
                let volumes = ["get", "list", "watch", "patch"];
                add(
                    true,
                    Right::new(
                        "",
                        "persistentvolumes",
                        volumes,
                        "csi-attacher: what to attach, and its finalizer",
                    ),
                );
                add(
                    true,
                    Right::new(storage, "csinodes", READ, "csi-attacher: node ids"),
                );
                add(
                    true,
                    Right::new(
                        storage,
                        "volumeattachments",
                        ["get", "list", "watch", "patch"],
                        "csi-attacher: its work, and its finalizer",
                    ),
                );
                add(
                    true,
                    Right::new(
                        storage,
                        "volumeattachments/status",
                        ["patch"],
                        "csi-attacher: its answer",
                    ),
                );
            }
            Kind::Resizer => {
                let patches = ["get", "list", "watch", "patch"];
                add(
                    true,
                    Right::new(
                        "",
                        "persistentvolumes",
                        patches,
                        "csi-resizer: writes the size",
                    ),
                );
                add(
                    true,
                    Right::new(
                        "",
                        "persistentvolumeclaims",
                        READ,
                        "csi-resizer: sizes that are wanted",
                    ),
                );
                add(
                    true,
                    Right::new(
                        "",
                        "persistentvolumeclaims/status",
                        ["patch"],
                        "csi-resizer: sizes that are reached",
                    ),
                );
                add(true, events);
                add(
                    backend.expands_offline(),
                    Right::new(
                        "",
                        "pods",
                        READ,
                        "csi-resizer: whether a volume is in use, since it must not be while it grows",
                    ),
                );
                let modifies = has(ControllerCapability::ModifyVolume);
                add(
                    modifies,
                    Right::new(
                        storage,
                        "volumeattributesclasses",
                        READ,
                        "csi-resizer: mutable parameters that are wanted",
                    ),
                );
            }
            Kind::Snapshotter => {
                let contents = ["get", "list", "watch", "update", "patch"];
                add(true, events);
                add(
                    true,
                    Right::new(
                        snapshot,
                        "volumesnapshotclasses",
                        READ,
                        "csi-snapshotter: parameters",
                    ),
                );
                add(
                    true,
                    Right::new(
                        snapshot,
                        "volumesnapshotcontents",
                        contents,
                        "csi-snapshotter: its work",
                    ),
                );
                add(
                    true,
                    Right::new(
                        snapshot,
                        "volumesnapshotcontents/status",
                        ["update", "patch"],
                        "csi-snapshotter: its answer",
                    ),
                );
                let groups = self.groups();
                add(
                    groups,
                    Right::new(
                        group,
                        "volumegroupsnapshotclasses",
                        READ,
                        "csi-snapshotter: parameters",
                    ),
                );
                add(
                    groups,
                    Right::new(
                        group,
                        "volumegroupsnapshotcontents",
                        contents,
                        "csi-snapshotter: its work",
                    ),
                );
                add(
                    groups,
                    Right::new(
                        group,
                        "volumegroupsnapshotcontents/status",
                        ["update", "patch"],
                        "csi-snapshotter: its answer",
                    ),
                );
            }
        }
        rights
    }
}
