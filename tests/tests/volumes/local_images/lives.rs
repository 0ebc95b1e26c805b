//! The lifecycle of each kind of volume, and what node and scheduler see of the pool.

use crate::local_images::{
    CONTENT_BYTES, FORMS, KINDS, assert_nothing_left, create, created, serving,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use tonic::Code;
use wasmount_csi::wire::csi::v1::{
    GetCapacityRequest, NodeGetInfoRequest, Topology, TopologyRequirement,
};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::leaks::local_images_pool;
use wasmount_tests::orchestrator::code;

/// The key of the node's label.
const NODE: &str = "topology.local-images.wasmount.io/node";
/// Size of a thin volume, in bytes: so large that what other tests write and free on the same disk meanwhile is little beside it.
const THIN_BYTES: i64 = 4 << 30;
/// Bytes of a block, as stat(2) counts.
const STAT_BLOCK_BYTES: u64 = 512;

#[tokio::test]
async fn privileged_each_kind_of_volume_lives_and_leaves_nothing() {
    for split in FORMS {
        let (mut host, mut orchestrator) = serving(split).await;
        for (number, kind) in KINDS.into_iter().enumerate() {
            let name = format!("pvc-{number}");
            let volume = created(&orchestrator, kind, &name).await;
            assert_eq!(created(&orchestrator, kind, &name).await, volume);
            let content = random_bytes(CONTENT_BYTES);
            for _ in 0..2 {
                kind.set_up(&orchestrator, &volume).await.unwrap();
            }
            kind.write(&volume.target, &content).unwrap();
            let refused = orchestrator.delete(&volume.id).await;
            assert_eq!(code(&refused), Code::FailedPrecondition, "{kind:?}");
            host.kill_9().unwrap();
            host.restart().unwrap();
            orchestrator = host.orchestrator().await.unwrap();
            orchestrator.unpublish(&volume).await.unwrap();
            orchestrator.unstage(&volume).await.unwrap();
            kind.set_up(&orchestrator, &volume).await.unwrap();
            assert!(
                kind.read(&volume.target, CONTENT_BYTES).unwrap() == content,
                "{kind:?}: other bytes"
            );
            orchestrator.tear_down(&volume).await.unwrap();
            let gone = orchestrator.is_known(&volume.id).await;
            assert_eq!(code(&gone), Code::NotFound, "{kind:?}");
        }
        assert_nothing_left(&host);
    }
}

#[tokio::test]
async fn privileged_a_volume_is_thin_and_promised_on_its_node() {
    let (host, orchestrator) = serving(None).await;
    let mut clients = orchestrator.clients();
    let info = clients.node.node_get_info(NodeGetInfoRequest {}).await;
    let info = info.unwrap().into_inner();
    let here = info.accessible_topology.clone().unwrap();
    assert_eq!(
        here.segments.keys().map(String::as_str).collect::<Vec<_>>(),
        [NODE]
    );
    let mut request = create(Kind::Filesystem("ext4"), "pvc");
    request.capacity_range.as_mut().unwrap().required_bytes = THIN_BYTES;
    request.accessibility_requirements = Some(TopologyRequirement {
        requisite: vec![here.clone()],
        preferred: vec![here.clone()],
    });
    let elsewhere = Topology {
        segments: BTreeMap::from([(NODE.to_owned(), "another".to_owned())]),
    };
    let mut other = request.clone();
    other.accessibility_requirements = Some(TopologyRequirement {
        requisite: vec![elsewhere.clone()],
        preferred: Vec::new(),
    });
    // Then the scheduler tries another node.
    let refused = orchestrator.create(other).await;
    assert_eq!(code(&refused), Code::ResourceExhausted);

    let before = orchestrator.capacity().await.unwrap();
    let made = clients.controller.create_volume(request).await.unwrap();
    let made = made.into_inner().volume.unwrap();
    assert_eq!(made.accessible_topology, [here]);
    let after = orchestrator.capacity().await.unwrap();
    // Others write to the same disk meanwhile.
    assert!(after <= before - THIN_BYTES / 2, "{before} became {after}");
    let image = fs::metadata(local_images_pool(&host).join(&made.volume_id)).unwrap();
    assert_eq!(image.len(), u64::try_from(THIN_BYTES).unwrap());
    assert!(image.blocks() * STAT_BLOCK_BYTES < image.len() / 2);

    let asked = GetCapacityRequest {
        accessible_topology: Some(elsewhere),
        ..GetCapacityRequest::default()
    };
    let answer = clients.controller.get_capacity(asked).await.unwrap();
    assert_eq!(answer.into_inner().available_capacity, 0);
    orchestrator.delete(&made.volume_id).await.unwrap();
    assert_nothing_left(&host);
}
