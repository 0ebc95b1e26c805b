//! The changes of CSI 1.13, on the wire: health calls instead of conditions, and the topology of snapshots.

use crate::support::{Served, mounted, refused, volume_named};
use tonic::Code;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_csi::wire::csi::v1 as wire;
use wire::volume_health::VolumeHealthEntry;

/// The answer of the backend in memory for every volume except `v-well`.
fn slow() -> VolumeHealthEntry {
    VolumeHealthEntry {
        status: 1,
        reason: "Degraded".to_owned(),
        message: "a disk is slow".to_owned(),
    }
}

async fn with_volumes(served: Served) -> Served {
    let mut controller = served.controller().await;
    for name in ["a", "b", "well"] {
        controller.create_volume(volume_named(name)).await.unwrap();
    }
    served
}

fn of(id: &str) -> wire::ControllerGetVolumeHealthRequest {
    wire::ControllerGetVolumeHealthRequest {
        volume_id: id.to_owned(),
        ..Default::default()
    }
}

fn on_node(id: &str) -> wire::NodeGetVolumeHealthRequest {
    wire::NodeGetVolumeHealthRequest {
        volume_id: id.to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn volume_health_is_answered_and_without_volume_not_found() {
    let served = with_volumes(Served::whole_in_1_13()).await;
    let mut controller = served.controller().await;
    for (id, expected) in [("v-a", vec![slow()]), ("v-well", vec![])] {
        let answer = controller
            .controller_get_volume_health(of(id))
            .await
            .unwrap();
        let health = answer.into_inner().volume_health.unwrap();
        assert_eq!(
            (health.volume_id.as_str(), health.health_statuses),
            (id, expected)
        );
    }
    let none = controller.controller_get_volume_health(of("v-none")).await;
    assert_eq!(refused(none).0, Code::NotFound);
}

#[tokio::test]
async fn volumes_that_are_not_well_are_listed_page_by_page() {
    let served = with_volumes(Served::whole_in_1_13()).await;
    let mut controller = served.controller().await;
    let mut list = async |starting_token: &str| {
        let request = wire::ControllerListVolumeHealthRequest {
            max_entries: 1,
            starting_token: starting_token.to_owned(),
            ..Default::default()
        };
        let answer = controller.controller_list_volume_health(request).await;
        answer.map(|answer| answer.into_inner())
    };
    let (mut ids, mut token) = (Vec::new(), String::new());
    loop {
        let page = list(&token).await.unwrap();
        ids.extend(page.entries.into_iter().map(|health| health.volume_id));
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(ids, ["v-a", "v-b"]);
    assert_eq!(
        list("invalid-token").await.unwrap_err().code(),
        Code::Aborted
    );
}

#[tokio::test]
async fn the_node_reports_conditions_with_numbers_of_a_later_csi() {
    let served = with_volumes(Served::whole_in_1_13()).await;
    *served.mounter.health.lock().unwrap() = vec![Health {
        status: HealthStatus::Other(77),
        reason: "Odd".to_owned(),
        message: String::new(),
    }];
    let mut node = served.node().await;
    let answer = node.node_get_volume_health(on_node("v-a")).await.unwrap();
    let odd = VolumeHealthEntry {
        status: 77,
        reason: "Odd".to_owned(),
        message: String::new(),
    };
    let health = answer.into_inner().volume_health.unwrap();
    assert_eq!(
        (health.volume_id.as_str(), health.health_statuses),
        ("v-a", vec![odd, slow()])
    );
}

#[tokio::test]
async fn unreachable_storage_is_reported() {
    let served = Served::whole_in_1_13();
    let mut node = served.node().await;
    let mut storage = async || {
        let request = wire::NodeGetStorageHealthRequest::default();
        node.node_get_storage_health(request)
            .await
            .unwrap()
            .into_inner()
            .backend_health
    };
    assert_eq!(storage().await, []);
    *served.mounter.broken_pools.lock().unwrap() = vec!["fast".to_owned()];
    let unreachable = wire::node_get_storage_health_response::StorageBackendHealth {
        status: 2,
        reason: "PoolNotUsable".to_owned(),
        message: "pool `fast`: its directory does not exist".to_owned(),
        volume_capability: None,
    };
    assert_eq!(storage().await, [unreachable]);
}

#[tokio::test]
async fn capabilities_of_csi_1_13_have_its_numbers() {
    let served = Served::whole_in_1_13();
    let request = wire::GetPluginCapabilitiesRequest {};
    let plugin = served
        .identity()
        .await
        .get_plugin_capabilities(request)
        .await;
    let services = plugin.unwrap().into_inner().capabilities.into_iter();
    let services = services.filter_map(|each| match each.r#type.unwrap() {
        wire::plugin_capability::Type::Service(service) => Some(service.r#type),
        wire::plugin_capability::Type::VolumeExpansion(_) => None,
    });
    assert_eq!(services.collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let request = wire::ControllerGetCapabilitiesRequest {};
    let controller = served
        .controller()
        .await
        .controller_get_capabilities(request)
        .await;
    let numbers = controller.unwrap().into_inner().capabilities.into_iter();
    let numbers = numbers.map(|each| {
        let wire::controller_service_capability::Type::Rpc(rpc) = each.r#type.unwrap();
        rpc.r#type
    });
    assert_eq!(
        numbers.collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 9, 12, 14, 15, 16, 17]
    );
    let request = wire::NodeGetCapabilitiesRequest {};
    let node = served.node().await.node_get_capabilities(request).await;
    let numbers = node
        .unwrap()
        .into_inner()
        .capabilities
        .into_iter()
        .map(|each| {
            let wire::node_service_capability::Type::Rpc(rpc) = each.r#type.unwrap();
            rpc.r#type
        });
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3, 7, 8]);
}

#[tokio::test]
async fn a_volume_condition_is_sent_in_csi_1_12_only() {
    for (served, told) in [(Served::whole(), true), (Served::whole_in_1_13(), false)] {
        let served = with_volumes(served).await;
        let mut controller = served.controller().await;
        let page = controller
            .list_volumes(wire::ListVolumesRequest::default())
            .await;
        let listed = page.unwrap().into_inner().entries.remove(0).status.unwrap();
        assert_eq!(listed.volume_condition.is_some(), told);
        let get = wire::ControllerGetVolumeRequest {
            volume_id: "v-a".to_owned(),
        };
        let found = controller.controller_get_volume(get).await.unwrap();
        let status = found.into_inner().status.unwrap();
        assert_eq!(status.volume_condition.is_some(), told);

        let mut node = served.node().await;
        let stage = wire::NodeStageVolumeRequest {
            volume_id: "v-a".to_owned(),
            staging_target_path: "/stage".to_owned(),
            volume_capability: Some(mounted()),
            ..Default::default()
        };
        node.node_stage_volume(stage).await.unwrap();
        let stats = wire::NodeGetVolumeStatsRequest {
            volume_id: "v-a".to_owned(),
            volume_path: "/stage".to_owned(),
            ..Default::default()
        };
        let stats = node
            .node_get_volume_stats(stats)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(stats.volume_condition.is_some(), told);
    }
}

#[tokio::test]
async fn snapshot_accessibility_is_sent_in_csi_1_13_only() {
    for (served, places) in [(Served::whole(), 0), (Served::whole_in_1_13(), 1)] {
        let served = with_volumes(served).await;
        let zone = wire::Topology {
            segments: [("zone".to_owned(), "a".to_owned())].into(),
        };
        let request = wire::CreateSnapshotRequest {
            source_volume_id: "v-a".to_owned(),
            name: "x".to_owned(),
            accessibility_requirements: Some(wire::TopologyRequirement {
                requisite: vec![zone],
                preferred: vec![],
            }),
            ..Default::default()
        };
        let made = served.controller().await.create_snapshot(request).await;
        let snapshot = made.unwrap().into_inner().snapshot.unwrap();
        assert_eq!(snapshot.accessible_topology.len(), places);
    }
}

#[tokio::test]
async fn a_server_of_csi_1_12_does_not_know_the_health_calls() {
    let served = with_volumes(Served::whole()).await;
    let answer = served
        .controller()
        .await
        .controller_get_volume_health(of("v-a"))
        .await;
    let words = "ControllerGetVolumeHealth is not served: it is a call of CSI 1.13 (--csi-profile)";
    assert_eq!(refused(answer), (Code::Unimplemented, words.to_owned()));
    let answer = served
        .node()
        .await
        .node_get_volume_health(on_node("v-a"))
        .await;
    assert_eq!(refused(answer).0, Code::Unimplemented);
}
