//! Answers that break a rule: none reaches a client, and what is said instead names the rule and whose answer it was.

use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};

pub(crate) const VOLUMES: &[Row] = rows! {
    "error" in Create: OutOfRange, Words("no such size");
    "long-error" in Create: Internal, Words("eeee…");
    "empty-id" in Create: Internal, Fault("volume_id is empty");
    "long-id" in Create: Internal, Fault("volume_id is 129 bytes long, at most 128");
    "huge-id" in Create: Internal, Fault("volume_id is 2048 bytes long, at most 128");
    "nul-id" in Create: Internal, Fault("volume_id contains a NUL byte");
    "parent-id" in Create: Internal, Fault("volume_id has `..` between slashes");
    "parent-id" in Get: Internal, Fault("volume_id has `..` between slashes");
    "empty-id" in Get: Internal, Fault("volume_id is empty");
    "big-context" in Create: Internal, Fault("at most 4096 are allowed");
    "key-twice" in Create: Internal, Fault("volume_context has a key twice");
    "empty-key-in-context" in Create: Internal, Fault("a key is empty");
    "too-large" in Create: Ok, Fine;
    "beyond-csi" in Create: Internal, Fault("capacity_bytes is above 2^63-1 bytes");
    // CSI: unknown.
    "unknown-size" in Create: Ok, Fine;
    "0" in Expand: Internal, Fault("capacity_bytes 0 is outside of the requested range");
    "9223372036854775808" in Expand: Internal, Fault("capacity_bytes is above 2^63-1 bytes");
    "other-source" in Create: Internal, Fault("content_source is not the requested one");
    "bad-topology" in Create: Internal, Fault("a topology segment is no valid label");
    "huge-answer" in Create: ResourceExhausted, Fault("limits.hostCallBytes (4194304)");
    "big-publish-context" in Publish: Internal, Fault("publish_context is 4099 bytes long");
    "publish-key-twice" in Publish: Internal, Fault("publish_context has a key twice");
    "capacity-beyond-csi" in Capacity: Internal, Fault("above 2^63-1 bytes");
    "minimum-above-maximum" in Capacity: Internal, Fault("minimum_volume_bytes is above");
    // A condition never fails what it belongs to.
    "too-many-healths" in Get: Ok, Fine;
};

pub(crate) const SNAPSHOTS: &[Row] = rows! {
    "snapshot-of-another" in CreateSnapshot: Internal, Fault("source_volume_id is not the requested one");
    "empty-snapshot-id" in CreateSnapshot: Internal, Fault("snapshot_id is empty");
    "snapshot-beyond-csi" in CreateSnapshot: Internal, Fault("size_bytes is above 2^63-1 bytes");
    "other-snapshot-id" in GetSnapshot: Internal, Fault("snapshot_id is not the requested one");
    // As it can be listed, the sidecar asks until it is ready.
    "never-ready" in CreateSnapshot: Ok, Fine;
    "never-ready" in CreateSnapshot: Ok, Fine;
    "never-ready" in DeleteSnapshot: Ok, Fine;
    "member-missing" in CreateGroup: Internal, Fault("the set of source volumes is not the requested one");
    "member-of-no-group" in CreateGroup: Internal, Fault("a member does not name the group");
    "member-of-no-group" in GetGroup: Internal, Fault("a member does not name the group");
    "empty-extent" in Allocated: Internal, Fault("an extent is empty");
    "extent-behind-the-end" in Delta: Internal, Fault("ends past the end of the volume");
    "pages-without-end" in Allocated: Internal, Fault("next_offset");
    "same-page-for-ever" in Delta: Internal, Fault("next_offset");
};

/// Told by the setting `get-node-info`.
pub(crate) const NODES: &[Row] = rows! {
    "too-many-volumes" in NodeInfo: Internal, Fault("max_volumes is above 2^63-1");
    "huge-node-id" in NodeInfo: Internal, Fault("node_id is 2048 bytes long");
};

/// Where snapshots cannot be listed, only the host can wait for them.
const UNLISTED: &[Row] = rows! {
    "never-ready" in CreateSnapshot: Aborted, Words("snapshot behave is not ready yet");
    "never-ready" in CreateSnapshot: Aborted, Words("snapshot behave is not ready yet");
    "behave" in CreateSnapshot: Ok, Fine;
    "never-ready" in DeleteSnapshot: Ok, Fine;
};

#[test]
fn privileged_an_answer_that_breaks_a_rule_reaches_no_client() {
    scene::run(async {
        let scene = Scene::with("").await;
        hold(&scene, VOLUMES).await;
        hold(&scene, SNAPSHOTS).await;
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_a_snapshot_that_is_never_ready_holds_nothing_else() {
    scene::run(async {
        let scene = Scene::with("  csi: { hideCapabilities: [LIST_SNAPSHOTS] }\n").await;
        hold(&scene, UNLISTED).await;
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_an_invalid_node_description_is_not_kept() {
    scene::run(async {
        for row in NODES {
            let scene = Scene::with(&format!("  settings: {{ get-node-info: {} }}\n", row.0)).await;
            hold(&scene, &[*row, *row]).await;
            scene.ends_whole().await;
        }
    });
}
