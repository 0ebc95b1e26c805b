//! Growth on the node alone, as external-resizer and kubelet do it: the resizer finds that the controller cannot and the node can (its trivial
//! resizer, which calls no driver), and kubelet calls NodeExpandVolume with the wanted size, while the volume is in use or just after it was
//! published again.

use crate::local_images::serving_with;
use crate::local_images::{
    CONTENT_BYTES, FORMS, KINDS, assert_nothing_left, create, created, serving,
};
use std::fs;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::controller_service_capability::{
    Type as ControllerType, rpc::Type as ControllerRpc,
};
use wasmount_csi::wire::csi::v1::node_service_capability::{
    Type as NodeType, rpc::Type as NodeRpc,
};
use wasmount_csi::wire::csi::v1::plugin_capability::{
    Type as PluginType, service::Type as Service, volume_expansion::Type as Expansion,
};
use wasmount_csi::wire::csi::v1::{
    ControllerGetCapabilitiesRequest, GetPluginCapabilitiesRequest, NodeExpandVolumeRequest,
    NodeGetCapabilitiesRequest,
};
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::kinds::{Kind, may_grow_ext4_online, random_bytes};
use wasmount_tests::leaks::local_images_pool;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};
use wasmount_tests::requests;

/// More than any disk has, in bytes.
const TOO_MUCH: i64 = 1 << 60;

/// What external-resizer sees, on the socket that it has (`NewResizerFromClient`).
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    controller_service: bool,
    expansion: Vec<Expansion>,
    controller_expands: bool,
    node_expands: bool,
}

async fn seen(orchestrator: &Orchestrator) -> Seen {
    let mut clients = orchestrator.clients();
    let request = GetPluginCapabilitiesRequest {};
    let plugin = clients.identity.get_plugin_capabilities(request).await;
    let plugin = plugin.unwrap().into_inner().capabilities;
    let request = ControllerGetCapabilitiesRequest {};
    let controller = clients
        .controller
        .controller_get_capabilities(request)
        .await;
    let controller = controller.unwrap().into_inner().capabilities;
    let request = NodeGetCapabilitiesRequest {};
    let node = clients.node.node_get_capabilities(request).await;
    let node = node.unwrap().into_inner().capabilities;
    Seen {
        controller_service: plugin.iter().any(|it| {
            matches!(&it.r#type, Some(PluginType::Service(it)) if it.r#type() == Service::ControllerService)
        }),
        expansion: plugin
            .iter()
            .filter_map(|it| match &it.r#type {
                Some(PluginType::VolumeExpansion(it)) => Some(it.r#type()),
                _ => None,
            })
            .collect(),
        controller_expands: controller.iter().any(|it| {
            matches!(&it.r#type, Some(ControllerType::Rpc(it)) if it.r#type() == ControllerRpc::ExpandVolume)
        }),
        node_expands: node.iter().any(|it| {
            matches!(&it.r#type, Some(NodeType::Rpc(it)) if it.r#type() == NodeRpc::ExpandVolume)
        }),
    }
}

/// As kubelet asks (`csiDriverClient.NodeExpandVolume`): where the pod has the volume, where it is staged, what the claim wants, and no limit.
fn wanted(kind: Kind, volume: &Volume, bytes: i64) -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        staging_target_path: volume.staging.display().to_string(),
        volume_capability: Some(kind.capability()),
        ..requests::node_expand(&volume.id, &volume.target, bytes)
    }
}

fn image_bytes(host: &Host, volume: &Volume) -> i64 {
    let image = local_images_pool(host).join(&volume.id);
    i64::try_from(fs::metadata(image).unwrap().len()).unwrap()
}

/// What a pod can see of the size, in bytes.
async fn visible(orchestrator: &Orchestrator, volume: &Volume) -> i64 {
    let stats = orchestrator.stats(&volume.id, &volume.target).await;
    stats.unwrap().usage.first().unwrap().total
}

/// Kubelet's call. An ext4 that the kernel does not grow in use grows when it is staged next: the host says so, and kubelet's pod is started
/// anew.
async fn grow(
    orchestrator: &Orchestrator,
    kind: Kind,
    volume: &Volume,
    bytes: i64,
) -> Result<(), Status> {
    let grown = orchestrator.node_expand(wanted(kind, volume, bytes)).await;
    if kind == Kind::Filesystem("ext4") && !may_grow_ext4_online() {
        assert_eq!(code(&grown), Code::FailedPrecondition, "{grown:?}");
        orchestrator.unpublish(volume).await?;
        orchestrator.unstage(volume).await?;
        kind.set_up(orchestrator, volume).await?;
        let again = orchestrator
            .node_expand(wanted(kind, volume, bytes))
            .await?;
        assert!(again == 0 || again >= bytes, "{again}");
        return Ok(());
    }
    let shown = grown?;
    assert!(shown == 0 || shown >= bytes, "{shown}");
    Ok(())
}

#[tokio::test]
async fn privileged_the_resizer_sees_node_expansion_on_either_socket() {
    for role in [HostRole::All, HostRole::Controller] {
        let (_host, orchestrator) = serving_with(HostOptions {
            role,
            ..HostOptions::default()
        })
        .await;
        let expected = Seen {
            controller_service: true,
            expansion: vec![Expansion::Online],
            controller_expands: false,
            node_expands: true,
        };
        assert_eq!(seen(&orchestrator).await, expected);
        let refused = orchestrator
            .expand(requests::expand("image-1", 1 << 30))
            .await;
        assert_eq!(code(&refused), Code::Unimplemented);
    }
}

#[tokio::test]
async fn privileged_each_kind_of_volume_expands_in_use() {
    for split in FORMS {
        let (host, orchestrator) = serving(split).await;
        for (number, kind) in KINDS.into_iter().enumerate() {
            let name = format!("pvc-{number}");
            let volume = created(&orchestrator, kind, &name).await;
            let content = random_bytes(CONTENT_BYTES);
            kind.set_up(&orchestrator, &volume).await.unwrap();
            kind.write(&volume.target, &content).unwrap();
            let (before, bytes) = (visible(&orchestrator, &volume).await, 2 * kind.bytes());
            grow(&orchestrator, kind, &volume, bytes).await.unwrap();
            assert_eq!(image_bytes(&host, &volume), bytes, "{kind:?}");
            let again = wanted(kind, &volume, bytes);
            orchestrator.node_expand(again).await.unwrap();
            assert_eq!(image_bytes(&host, &volume), bytes, "{kind:?}");
            let after = visible(&orchestrator, &volume).await;
            assert!(
                after > before + kind.bytes() / 2,
                "{kind:?}: {before} became {after}"
            );
            assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
            // The provisioner may ask once more for what it asked at first.
            let (id, known) = orchestrator.create(create(kind, &name)).await.unwrap();
            assert_eq!((id, known), (volume.id.clone(), bytes));
            orchestrator.tear_down(&volume).await.unwrap();
        }
        assert_nothing_left(&host);
    }
}

#[tokio::test]
async fn privileged_an_unused_volume_expands_with_its_next_pod() {
    let (mut host, mut orchestrator) = serving(None).await;
    for kind in KINDS {
        let volume = created(&orchestrator, kind, "pvc").await;
        let content = random_bytes(CONTENT_BYTES);
        kind.set_up(&orchestrator, &volume).await.unwrap();
        kind.write(&volume.target, &content).unwrap();
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
        let bytes = 2 * kind.bytes();
        let nowhere = orchestrator.node_expand(wanted(kind, &volume, bytes)).await;
        assert_eq!(code(&nowhere), Code::NotFound, "{kind:?}");
        assert_eq!(image_bytes(&host, &volume), kind.bytes());
        // Kubelet stages, publishes, and asks then (`expandVolumeDuringMount`), whatever became of the host meanwhile.
        kind.set_up(&orchestrator, &volume).await.unwrap();
        host.kill_9().unwrap();
        host.restart().unwrap();
        orchestrator = host.orchestrator().await.unwrap();
        grow(&orchestrator, kind, &volume, bytes).await.unwrap();
        assert_eq!(image_bytes(&host, &volume), bytes);
        assert!(visible(&orchestrator, &volume).await > bytes / 2);
        assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_expansion_beyond_the_pool_is_refused() {
    let (host, orchestrator) = serving(None).await;
    let kind = Kind::Block;
    let volume = created(&orchestrator, kind, "pvc").await;
    kind.set_up(&orchestrator, &volume).await.unwrap();
    let refused = orchestrator
        .node_expand(wanted(kind, &volume, TOO_MUCH))
        .await;
    assert_eq!(code(&refused), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(image_bytes(&host, &volume), kind.bytes());
    let mut too_small = wanted(kind, &volume, kind.bytes() / 2);
    too_small.capacity_range.as_mut().unwrap().limit_bytes = kind.bytes() / 2;
    let refused = orchestrator.node_expand(too_small).await;
    assert_eq!(code(&refused), Code::OutOfRange, "{refused:?}");
    assert_eq!(visible(&orchestrator, &volume).await, kind.bytes());
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}
