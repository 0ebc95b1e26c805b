//! Attaching: the limit of a node holds for concurrent calls too; ListVolumes shows published nodes; contradictions are refused.

use crate::conformance::driver::Driver;
use futures::future::join_all;
use std::collections::BTreeMap;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::{
    ControllerGetVolumeRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    ListVolumesRequest, NodeGetInfoRequest, NodeGetInfoResponse,
};
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{code, patiently};

/// Volumes that ask at once.
const AT_ONCE: usize = 50;

/// Volumes that the node may have.
const LIMIT: usize = 7;

const KIND: Kind = Kind::Directory;

async fn node(driver: &Driver) -> NodeGetInfoResponse {
    let mut node = driver.clients().node;
    node.node_get_info(NodeGetInfoRequest {})
        .await
        .unwrap()
        .into_inner()
}

/// ControllerPublishVolume to this node; the publish context.
pub(crate) async fn attach(
    driver: &Driver,
    volume: &str,
    readonly: bool,
) -> Result<BTreeMap<String, String>, Status> {
    let node_id = node(driver).await.node_id;
    attach_to(driver, volume, &node_id, readonly).await
}

async fn attach_to(
    driver: &Driver,
    volume: &str,
    node: &str,
    readonly: bool,
) -> Result<BTreeMap<String, String>, Status> {
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(KIND.capability()),
        readonly,
        ..ControllerPublishVolumeRequest::default()
    };
    let mut controller = driver.clients().controller;
    let answer = controller.controller_publish_volume(request).await?;
    Ok(answer.into_inner().publish_context)
}

/// ControllerUnpublishVolume from a node; without one, from all.
pub(crate) async fn detach(driver: &Driver, volume: &str, node: &str) -> Result<(), Status> {
    let request = ControllerUnpublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        ..ControllerUnpublishVolumeRequest::default()
    };
    let mut controller = driver.clients().controller;
    controller
        .controller_unpublish_volume(request)
        .await
        .map(drop)
}

/// The nodes that have a volume, by ControllerGetVolume.
async fn nodes_of(driver: &Driver, volume: &str) -> Vec<String> {
    let request = ControllerGetVolumeRequest {
        volume_id: volume.to_owned(),
    };
    let mut controller = driver.clients().controller;
    let answer = controller.controller_get_volume(request).await.unwrap();
    answer.into_inner().status.unwrap().published_node_ids
}

/// The nodes of each volume that has one, by ListVolumes.
async fn attached(driver: &Driver) -> BTreeMap<String, Vec<String>> {
    let mut controller = driver.clients().controller;
    let answer = controller
        .list_volumes(ListVolumesRequest::default())
        .await
        .unwrap();
    let entries = answer.into_inner().entries.into_iter();
    let nodes = entries.map(|it| {
        let nodes = it.status.unwrap().published_node_ids;
        (it.volume.unwrap().volume_id, nodes)
    });
    nodes.filter(|(_, nodes)| !nodes.is_empty()).collect()
}

#[tokio::test]
async fn privileged_a_node_never_exceeds_its_volume_limit() {
    let limit = LIMIT.to_string();
    let driver = &Driver::with(None, &[("maxVolumesPerNode", &limit)], &[]).await;
    let orchestrator = &driver.orchestrator;
    let info = node(driver).await;
    assert_eq!(usize::try_from(info.max_volumes_per_node).unwrap(), LIMIT);
    let created = join_all((0..AT_ONCE).map(|number| async move {
        let name = format!("pvc-{number}");
        KIND.created(orchestrator, &name).await
    }));
    let created = created.await;
    let ids: Vec<_> = created.into_iter().map(|it| it.unwrap().id).collect();
    for _ in 0..2 {
        let answers = join_all(ids.iter().map(|id| async move {
            let attached = patiently(&[Code::Aborted], || attach(driver, id, false));
            (id, attached.await)
        }));
        let answers = answers.await;
        let (there, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|(_, it)| it.is_ok());
        assert_eq!(there.len(), LIMIT);
        assert!(
            refused
                .iter()
                .all(|(_, it)| code(it) == Code::ResourceExhausted)
        );
        assert_eq!(attached(driver).await.len(), LIMIT);
        for (id, answer) in &there {
            assert_eq!(nodes_of(driver, id).await, [info.node_id.as_str()]);
            assert_eq!(
                &attach(driver, id, false).await.unwrap(),
                answer.as_ref().unwrap()
            );
        }
        // One that goes makes room for one.
        detach(driver, there[0].0, &info.node_id).await.unwrap();
        attach(driver, refused[0].0, false).await.unwrap();
        assert_eq!(
            code(&attach(driver, there[0].0, false).await),
            Code::ResourceExhausted
        );
        let gone =
            join_all(ids.iter().map(|id| async move {
                patiently(&[Code::Aborted], || detach(driver, id, "")).await
            }));
        let gone = gone.await;
        assert!(gone.iter().all(Result::is_ok), "{gone:?}");
        assert_eq!(attached(driver).await, BTreeMap::new());
    }
    for id in &ids {
        orchestrator.delete(id).await.unwrap();
    }
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_attaching_is_idempotent_and_conflicts_are_refused() {
    attach_again_and_otherwise(Driver::serving().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_attaching_to_an_array_is_idempotent() {
    attach_again_and_otherwise(Driver::of_array(ArrayOptions::default()).await).await;
}

async fn attach_again_and_otherwise(mut driver: Driver) {
    let volume = driver.created("pvc").await;
    let id = volume.id.as_str();
    let here = node(&driver).await.node_id;
    let there = BTreeMap::from([(id.to_owned(), vec![here.clone()])]);
    let context = attach(&driver, id, false).await.unwrap();
    for is_killed in [false, true] {
        if is_killed {
            driver.kill_and_restart().await;
        }
        assert_eq!(attach(&driver, id, false).await.unwrap(), context);
        assert_eq!(attached(&driver).await, there);
        for (what, answer, expected) in [
            (
                "for reading",
                attach(&driver, id, true).await.map(drop),
                Code::AlreadyExists,
            ),
            (
                "to an unknown node",
                attach_to(&driver, id, "elsewhere", false).await.map(drop),
                Code::NotFound,
            ),
            (
                "of an unknown volume",
                attach(&driver, "unknown", false).await.map(drop),
                Code::NotFound,
            ),
            (
                "and deleting",
                driver.orchestrator.delete(id).await,
                Code::FailedPrecondition,
            ),
        ] {
            assert_eq!(code(&answer), expected, "{what}: {answer:?}");
        }
    }
    for (what, volume, node) in [
        ("of an unknown volume", "unknown", here.as_str()),
        ("from an unknown node", id, "elsewhere"),
    ] {
        assert_eq!(
            code(&detach(&driver, volume, node).await),
            Code::Ok,
            "{what}"
        );
        assert_eq!(attached(&driver).await, there, "{what}");
    }
    for _ in 0..2 {
        detach(&driver, id, "").await.unwrap();
        assert_eq!(attached(&driver).await, BTreeMap::new());
    }
    // Not attached any more, it may be for reading.
    attach(&driver, id, true).await.unwrap();
    detach(&driver, id, &here).await.unwrap();
    driver.orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}
