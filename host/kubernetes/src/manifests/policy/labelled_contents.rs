//! The policy by which a snapshot that no node would ever look after is refused in words, instead of staying unready without any.
//!
//! With `--node-deployment` a csi-snapshotter lists the VolumeSnapshotContents that are labelled with its node, and no others (external-snapshotter
//! 8.6, cmd/csi-snapshotter/main.go). The snapshot-controller labels those that it makes, if it runs with `--enable-distributed-snapshotting`;
//! pre-provisioned ones are labelled by whoever makes them.

use super::{Policy, rule, writes};
use crate::manifests::Parts;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;

/// `VolumeSnapshotContentManagedByLabel` of external-snapshotter.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

impl Parts<'_> {
    /// None: one snapshotter looks after all contents.
    pub(super) fn labelled_contents(&self) -> Option<Policy> {
        let driver = &self.backend.driver;
        let message = format!(
            "volumes of {driver} lie on one node each, and no label says on which node this snapshot is to be looked for, so it would never become \
             ready: label it {MANAGED_BY}=<node>, or run the snapshot-controller with --enable-distributed-snapshotting if it makes this one"
        );
        self.snapshots_by_node().then(|| Policy {
            part: "labelled-contents",
            about: "A VolumeSnapshotContent without the label of a node is looked after by no snapshotter, and nobody would say so.",
            writes: vec![writes(
                "snapshot.storage.k8s.io",
                &["volumesnapshotcontents"],
                &["CREATE"],
            )],
            condition: MatchCondition {
                name: "of-the-driver".to_owned(),
                expression: format!("object.spec.driver == '{driver}'"),
            },
            variables: Vec::new(),
            validations: vec![rule(
                format!("object.metadata.?labels[?'{MANAGED_BY}'].orValue('') != ''"),
                message,
            )],
        })
    }
}
