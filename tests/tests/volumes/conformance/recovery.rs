//! A restart in the middle: whatever was answered before is answered the same afterwards, by the controller and by the node, and what pods have
//! mounted goes on.

use crate::conformance::driver::Driver;
use wasmount_csi::wire::csi::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse,
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse,
};
use wasmount_tests::copies::{delete_snapshot, snapshot};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::Volume;
use xtask::clients::Clients;

/// Restarts.
const LIVES: usize = 3;

const CONTENT_BYTES: usize = 10_007;

/// All that a driver says of itself and of what it has.
#[derive(Debug, PartialEq)]
struct Said {
    plugin: GetPluginCapabilitiesResponse,
    controller: ControllerGetCapabilitiesResponse,
    group_controller: GroupControllerGetCapabilitiesResponse,
    node: NodeGetCapabilitiesResponse,
    info: NodeGetInfoResponse,
    volumes: ListVolumesResponse,
    snapshots: ListSnapshotsResponse,
}

impl Said {
    async fn by(mut clients: Clients) -> Self {
        let plugin = clients
            .identity
            .get_plugin_capabilities(GetPluginCapabilitiesRequest {})
            .await;
        let controller = ControllerGetCapabilitiesRequest {};
        let controller = clients
            .controller
            .controller_get_capabilities(controller)
            .await;
        let group = GroupControllerGetCapabilitiesRequest {};
        let group = clients
            .group_controller
            .group_controller_get_capabilities(group)
            .await;
        let node = clients
            .node
            .node_get_capabilities(NodeGetCapabilitiesRequest {})
            .await;
        let info = clients.node.node_get_info(NodeGetInfoRequest {}).await;
        let volumes = clients
            .controller
            .list_volumes(ListVolumesRequest::default())
            .await;
        let snapshots = clients
            .controller
            .list_snapshots(ListSnapshotsRequest::default())
            .await;
        Self {
            plugin: plugin.unwrap().into_inner(),
            controller: controller.unwrap().into_inner(),
            group_controller: group.unwrap().into_inner(),
            node: node.unwrap().into_inner(),
            info: info.unwrap().into_inner(),
            volumes: volumes.unwrap().into_inner(),
            snapshots: snapshots.unwrap().into_inner(),
        }
    }
}

#[tokio::test]
async fn privileged_a_killed_driver_answers_the_same_after_restart() {
    let mut driver = Driver::with(None, &[("maxVolumesPerNode", "9")], &[]).await;
    let mut volumes: Vec<(Kind, Volume, Vec<u8>)> = Vec::new();
    let mut snapshots = Vec::new();
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        let orchestrator = &driver.orchestrator;
        let name = format!("pvc-{number}");
        let volume = kind.created(orchestrator, &name).await.unwrap();
        crate::conformance::attach::attach(&driver, &volume.id, false)
            .await
            .unwrap();
        snapshots.push(snapshot(orchestrator, &volume.id, &name).await.unwrap());
        kind.set_up(orchestrator, &volume).await.unwrap();
        let content = random_bytes(CONTENT_BYTES);
        kind.write(&volume.target, &content).unwrap();
        volumes.push((kind, volume, content));
    }
    let said = Said::by(driver.clients()).await;
    assert_eq!(said.volumes.entries.len(), Kind::ALL.len());
    assert_eq!(said.snapshots.entries.len(), Kind::ALL.len());
    let mounts = driver.host.mounts().unwrap();
    for _ in 0..LIVES {
        driver.kill_and_restart().await;
        assert_eq!(Said::by(driver.clients()).await, said);
        assert_eq!(driver.host.mounts().unwrap(), mounts);
        for (kind, volume, content) in &mut volumes {
            let orchestrator = &driver.orchestrator;
            kind.set_up(orchestrator, volume).await.unwrap();
            let found = kind.read(&volume.target, CONTENT_BYTES).unwrap();
            assert!(found == *content, "{kind:?}: other bytes");
            // A pod that writes goes on writing.
            *content = random_bytes(CONTENT_BYTES);
            kind.write(&volume.target, content).unwrap();
            orchestrator
                .stats(&volume.id, &volume.target)
                .await
                .unwrap();
        }
        assert_eq!(driver.host.mounts().unwrap(), mounts);
    }
    for ((_, volume, _), taken) in volumes.iter().zip(&snapshots) {
        driver.orchestrator.unpublish(volume).await.unwrap();
        driver.orchestrator.unstage(volume).await.unwrap();
        crate::conformance::attach::detach(&driver, &volume.id, "")
            .await
            .unwrap();
        driver.orchestrator.delete(&volume.id).await.unwrap();
        delete_snapshot(&driver.orchestrator, taken).await.unwrap();
    }
    driver.assert_nothing_left();
}
