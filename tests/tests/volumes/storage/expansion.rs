//! Growth: the controller gives an image more bytes, the node shows them to the pod, online where the kernel can, and nothing of the data
//! changes.

use crate::storage::{CONTENT_BYTES, assert_nothing_left, serving};
use std::fs;
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::{ControllerExpandVolumeRequest, NodeExpandVolumeRequest};
use wasmount_tests::host::Host;
use wasmount_tests::kinds::{Kind, may_grow_ext4_online, random_bytes};
use wasmount_tests::leaks::hostpath_pool;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::requests;

/// Of an image in the pool.
fn image_bytes(host: &Host, volume: &Volume) -> i64 {
    let image = hostpath_pool(host).join(&volume.id);
    i64::try_from(fs::metadata(image).unwrap().len()).unwrap()
}

fn expand(kind: Kind, volume: &Volume, bytes: i64) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_capability: Some(kind.capability()),
        ..requests::expand(&volume.id, bytes)
    }
}

fn node_expand(kind: Kind, volume: &Volume, path: &Path, bytes: i64) -> NodeExpandVolumeRequest {
    NodeExpandVolumeRequest {
        staging_target_path: volume.staging.display().to_string(),
        volume_capability: Some(kind.capability()),
        ..requests::node_expand(&volume.id, path, bytes)
    }
}

/// What a pod can see of the size, in bytes.
async fn seen(orchestrator: &Orchestrator, volume: &Volume) -> i64 {
    let stats = orchestrator.stats(&volume.id, &volume.target).await;
    stats.unwrap().usage.first().unwrap().total
}

/// A volume in use, with content.
async fn in_use(orchestrator: &Orchestrator, kind: Kind, content: &[u8]) -> Volume {
    let volume = kind.created(orchestrator, "pvc").await.unwrap();
    kind.set_up(orchestrator, &volume).await.unwrap();
    kind.write(&volume.target, content).unwrap();
    volume
}

async fn grows_in_use(kind: Kind) {
    let (host, orchestrator) = serving().await;
    let content = random_bytes(CONTENT_BYTES);
    let volume = in_use(&orchestrator, kind, &content).await;
    let (before, bytes) = (seen(&orchestrator, &volume).await, 2 * kind.bytes());
    for _ in 0..2 {
        let grown = orchestrator.expand(expand(kind, &volume, bytes)).await;
        assert_eq!(grown.unwrap(), (bytes, true));
        assert_eq!(image_bytes(&host, &volume), bytes);
    }
    assert_eq!(
        seen(&orchestrator, &volume).await,
        before,
        "before the node's turn"
    );
    for path in [&volume.target, &volume.staging, &volume.target] {
        let request = node_expand(kind, &volume, path, bytes);
        let shown = orchestrator.node_expand(request).await.unwrap();
        assert!(shown == 0 || shown >= bytes, "{shown}");
    }
    let after = seen(&orchestrator, &volume).await;
    assert!(after > before + kind.bytes() / 2, "{before} became {after}");
    assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_an_xfs_image_grows_in_use() {
    grows_in_use(Kind::Filesystem("xfs")).await;
}

#[tokio::test]
async fn privileged_a_btrfs_image_grows_in_use() {
    grows_in_use(Kind::Filesystem("btrfs")).await;
}

#[tokio::test]
async fn privileged_a_raw_block_image_grows_in_use() {
    grows_in_use(Kind::Block).await;
}

#[tokio::test]
async fn on_other_kernel_an_ext4_image_grows_in_use() {
    needs_other_kernel();
    assert!(may_grow_ext4_online());
    grows_in_use(Kind::Filesystem("ext4")).await;
}

#[tokio::test]
async fn privileged_an_ext4_image_expands_in_use_or_at_next_stage() {
    let (host, orchestrator) = serving().await;
    let kind = Kind::Filesystem("ext4");
    let content = random_bytes(CONTENT_BYTES);
    let volume = in_use(&orchestrator, kind, &content).await;
    let (before, bytes) = (seen(&orchestrator, &volume).await, 4 * kind.bytes());
    orchestrator
        .expand(expand(kind, &volume, bytes))
        .await
        .unwrap();
    let request = node_expand(kind, &volume, &volume.target, bytes);
    let online = orchestrator.node_expand(request).await;
    if may_grow_ext4_online() {
        online.unwrap();
    } else {
        assert_eq!(code(&online), Code::FailedPrecondition, "{online:?}");
        let said = online.unwrap_err().message().to_owned();
        assert!(said.contains("CAP_SYS_RESOURCE"), "{said}");
        assert_eq!(seen(&orchestrator, &volume).await, before);
        assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
    }
    let after = seen(&orchestrator, &volume).await;
    assert!(after > 2 * kind.bytes(), "{before} became {after}");
    let request = node_expand(kind, &volume, &volume.target, bytes);
    orchestrator.node_expand(request).await.unwrap();
    assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_an_image_expanded_unused_is_whole_when_staged() {
    let (host, orchestrator) = serving().await;
    for kind in [
        Kind::Filesystem("ext4"),
        Kind::Filesystem("xfs"),
        Kind::Filesystem("btrfs"),
        Kind::Block,
    ] {
        let content = random_bytes(CONTENT_BYTES);
        let volume = in_use(&orchestrator, kind, &content).await;
        let (before, bytes) = (seen(&orchestrator, &volume).await, 2 * kind.bytes());
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
        orchestrator
            .expand(expand(kind, &volume, bytes))
            .await
            .unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
        let after = seen(&orchestrator, &volume).await;
        assert!(
            after > before + kind.bytes() / 2,
            "{kind:?}: {before} became {after}"
        );
        assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

/// A PersistentVolume may claim more than the controller was ever asked for.
#[tokio::test]
async fn privileged_a_node_grows_no_image_that_its_controller_grows() {
    let (host, orchestrator) = serving().await;
    for kind in [Kind::Filesystem("xfs"), Kind::Block] {
        let volume = in_use(&orchestrator, kind, b"kept").await;
        let before = seen(&orchestrator, &volume).await;
        let request = node_expand(kind, &volume, &volume.target, 2 * kind.bytes());
        let refused = orchestrator.node_expand(request).await;
        assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
        assert_eq!(image_bytes(&host, &volume), kind.bytes());
        assert_eq!(seen(&orchestrator, &volume).await, before);
        let request = node_expand(kind, &volume, &volume.target, kind.bytes());
        assert_eq!(
            orchestrator.node_expand(request).await.unwrap(),
            kind.bytes()
        );
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}
