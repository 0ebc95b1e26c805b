//! The Node service: a full volume lifecycle on the node, and each RPC with an invalid request.

use crate::support::{Served, mounted, refused, volume_named};
use tonic::Code;
use wasmount_csi::wire::csi::v1 as wire;

const STAGE: &str = "/stage";
const TARGET: &str = "/target";

fn stage(id: &str) -> wire::NodeStageVolumeRequest {
    wire::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: STAGE.to_owned(),
        volume_capability: Some(mounted()),
        ..Default::default()
    }
}

fn publish(id: &str) -> wire::NodePublishVolumeRequest {
    wire::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: STAGE.to_owned(),
        target_path: TARGET.to_owned(),
        volume_capability: Some(mounted()),
        ..Default::default()
    }
}

fn stats(path: &str) -> wire::NodeGetVolumeStatsRequest {
    wire::NodeGetVolumeStatsRequest {
        volume_id: "v-a".to_owned(),
        volume_path: path.to_owned(),
        ..Default::default()
    }
}

fn expand(path: &str) -> wire::NodeExpandVolumeRequest {
    wire::NodeExpandVolumeRequest {
        volume_id: "v-a".to_owned(),
        volume_path: path.to_owned(),
        capacity_range: Some(wire::CapacityRange {
            required_bytes: 8192,
            limit_bytes: 0,
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_volume_lives_on_the_node_from_stage_to_unstage() {
    let served = Served::whole();
    served
        .controller()
        .await
        .create_volume(volume_named("a"))
        .await
        .unwrap();
    let mut node = served.node().await;
    node.node_stage_volume(stage("v-a")).await.unwrap();
    node.node_publish_volume(publish("v-a")).await.unwrap();

    let answer = node
        .node_get_volume_stats(stats(TARGET))
        .await
        .unwrap()
        .into_inner();
    let usage = |available, total, used, unit: wire::volume_usage::Unit| wire::VolumeUsage {
        available,
        total,
        used,
        unit: unit.into(),
    };
    let bytes = usage(1000, 1024, 24, wire::volume_usage::Unit::Bytes);
    assert_eq!(
        answer.usage,
        [bytes, usage(9, 10, 1, wire::volume_usage::Unit::Inodes)]
    );
    let condition = answer.volume_condition.unwrap();
    assert_eq!(
        (condition.abnormal, condition.message.as_str()),
        (true, "Degraded: a disk is slow")
    );
    let grown = node
        .node_expand_volume(expand(TARGET))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(grown.capacity_bytes, 8192);

    let unpublish = wire::NodeUnpublishVolumeRequest {
        volume_id: "v-a".to_owned(),
        target_path: TARGET.to_owned(),
    };
    let unstage = wire::NodeUnstageVolumeRequest {
        volume_id: "v-a".to_owned(),
        staging_target_path: STAGE.to_owned(),
    };
    for _ in 0..2 {
        node.node_unpublish_volume(unpublish.clone()).await.unwrap();
        node.node_unstage_volume(unstage.clone()).await.unwrap();
    }
}

#[tokio::test]
async fn a_publish_before_the_stage_is_a_failed_precondition() {
    let served = Served::whole();
    let refused = refused(
        served
            .node()
            .await
            .node_publish_volume(publish("v-a"))
            .await,
    );
    let words = "volume is not staged at /stage: call NodeStageVolume first".to_owned();
    assert_eq!(refused, (Code::FailedPrecondition, words));
}

#[tokio::test]
async fn a_stage_of_an_unknown_volume_is_not_found() {
    let served = Served::whole();
    assert_eq!(
        refused(served.node().await.node_stage_volume(stage("v-a")).await).0,
        Code::NotFound
    );
}

#[tokio::test]
async fn a_second_stage_with_another_capability_already_exists() {
    let served = Served::whole();
    served
        .controller()
        .await
        .create_volume(volume_named("a"))
        .await
        .unwrap();
    let mut node = served.node().await;
    node.node_stage_volume(stage("v-a")).await.unwrap();
    let mut other = stage("v-a");
    other
        .volume_capability
        .as_mut()
        .unwrap()
        .access_mode
        .as_mut()
        .unwrap()
        .mode = 5;
    assert_eq!(
        refused(node.node_stage_volume(other).await).0,
        Code::AlreadyExists
    );
}

#[tokio::test]
async fn what_is_not_mounted_has_no_statistics_and_does_not_grow() {
    let served = Served::whole();
    let mut node = served.node().await;
    assert_eq!(
        refused(node.node_get_volume_stats(stats("some/path")).await).0,
        Code::NotFound
    );
    assert_eq!(
        refused(node.node_expand_volume(expand("some/path")).await).0,
        Code::NotFound
    );
}

#[tokio::test]
async fn the_node_says_its_name_its_limit_and_its_place() {
    let served = Served::whole();
    let info = served
        .node()
        .await
        .node_get_info(wire::NodeGetInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (info.node_id.as_str(), info.max_volumes_per_node),
        ("node-1", 39)
    );
    assert_eq!(
        info.accessible_topology
            .unwrap()
            .segments
            .get("zone")
            .map(String::as_str),
        Some("a")
    );
}
