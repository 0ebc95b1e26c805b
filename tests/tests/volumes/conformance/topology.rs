//! Places: a local volume can be reached from its node only, says so, and is not made where it could not be.

use crate::conformance::driver::Driver;
use std::collections::BTreeMap;
use std::slice::from_ref;
use tonic::Code;
use wasmount_csi::wire::csi::v1::plugin_capability::service::Type as ServiceType;
use wasmount_csi::wire::csi::v1::plugin_capability::{Service, Type};
use wasmount_csi::wire::csi::v1::{
    CreateSnapshotRequest, CreateVolumeRequest, GetCapacityRequest, GetPluginCapabilitiesRequest,
    GetSnapshotRequest, NodeGetInfoRequest, Topology, TopologyRequirement,
};
use wasmount_tests::copies::delete_snapshot;
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::code;

const KIND: Kind = Kind::Directory;

fn requirement(requisite: &[&Topology], preferred: &[&Topology]) -> Option<TopologyRequirement> {
    let places = |them: &[&Topology]| them.iter().map(|it| (*it).clone()).collect();
    Some(TopologyRequirement {
        requisite: places(requisite),
        preferred: places(preferred),
    })
}

fn required(requisite: &[&Topology], preferred: &[&Topology]) -> CreateVolumeRequest {
    CreateVolumeRequest {
        accessibility_requirements: requirement(requisite, preferred),
        ..KIND.create("pvc")
    }
}

/// Where this driver's node is, and where it is not.
async fn places(driver: &Driver) -> (Topology, Topology) {
    let mut node = driver.clients().node;
    let info = node
        .node_get_info(NodeGetInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    let here = info.accessible_topology.unwrap();
    assert_eq!(here.segments.values().collect::<Vec<_>>(), [&info.node_id]);
    let segments = here.segments.keys();
    let segments = segments
        .map(|key| (key.clone(), "elsewhere".to_owned()))
        .collect();
    (here, Topology { segments })
}

async fn offers(driver: &Driver, service: ServiceType) -> bool {
    let mut identity = driver.clients().identity;
    let request = GetPluginCapabilitiesRequest {};
    let answer = identity.get_plugin_capabilities(request).await.unwrap();
    let wanted = Some(Type::Service(Service {
        r#type: service.into(),
    }));
    let capabilities = answer.into_inner().capabilities;
    capabilities.iter().any(|it| it.r#type == wanted)
}

#[tokio::test]
async fn privileged_a_volume_is_created_only_on_its_node() {
    let driver = Driver::serving().await;
    let mut clients = driver.clients();
    assert!(offers(&driver, ServiceType::VolumeAccessibilityConstraints).await);
    let (here, elsewhere) = places(&driver).await;
    let another_key = Topology {
        segments: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
    };
    for (what, request) in [
        ("no requirement", KIND.create("pvc")),
        ("here", required(&[&here], &[&here])),
        (
            "here among others",
            required(&[&elsewhere, &here], &[&elsewhere]),
        ),
        ("preferred elsewhere", required(&[], &[&elsewhere, &here])),
    ] {
        let answer = clients.controller.create_volume(request).await.unwrap();
        let volume = answer.into_inner().volume.unwrap();
        assert_eq!(volume.accessible_topology, from_ref(&here), "{what}");
        driver.orchestrator.delete(&volume.volume_id).await.unwrap();
    }
    for (what, request) in [
        ("elsewhere", required(&[&elsewhere], &[&elsewhere])),
        ("another key", required(&[&another_key], &[])),
    ] {
        let refused = driver.orchestrator.create(request).await;
        assert_eq!(
            code(&refused),
            Code::ResourceExhausted,
            "{what}: {refused:?}"
        );
    }
    let mut capacity = Vec::new();
    for place in [None, Some(here), Some(elsewhere)] {
        let request = GetCapacityRequest {
            accessible_topology: place,
            ..GetCapacityRequest::default()
        };
        let answer = clients.controller.get_capacity(request).await.unwrap();
        capacity.push(answer.into_inner().available_capacity);
    }
    assert!(capacity[0] > 0 && capacity[1] > 0);
    assert_eq!(capacity[2], 0);
    driver.assert_nothing_left();
}

/// As CSI 1.13 has it.
#[tokio::test]
async fn privileged_a_snapshot_is_taken_only_where_its_volume_is() {
    let driver = Driver::with(None, &[], &["--csi-profile", "1.13"]).await;
    let orchestrator = &driver.orchestrator;
    assert!(offers(&driver, ServiceType::SnapshotAccessibilityConstraints).await);
    let (here, elsewhere) = places(&driver).await;
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    let request = |accessibility_requirements| CreateSnapshotRequest {
        source_volume_id: volume.id.clone(),
        name: "taken".to_owned(),
        accessibility_requirements,
        ..CreateSnapshotRequest::default()
    };
    let mut controller = driver.clients().controller;
    let refused = request(requirement(&[&elsewhere], &[&elsewhere]));
    let refused = controller.create_snapshot(refused).await;
    assert_eq!(code(&refused), Code::ResourceExhausted, "{refused:?}");
    for wanted in [
        requirement(&[&here], &[&here]),
        requirement(&[&elsewhere, &here], &[&elsewhere]),
        None,
    ] {
        let answer = controller.create_snapshot(request(wanted)).await.unwrap();
        let taken = answer.into_inner().snapshot.unwrap();
        assert_eq!(taken.accessible_topology, from_ref(&here));
        let id = GetSnapshotRequest {
            snapshot_id: taken.snapshot_id.clone(),
            ..GetSnapshotRequest::default()
        };
        let answer = controller.get_snapshot(id).await.unwrap();
        assert_eq!(answer.into_inner().snapshot, Some(taken.clone()));
        delete_snapshot(orchestrator, &taken.snapshot_id)
            .await
            .unwrap();
    }
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}
