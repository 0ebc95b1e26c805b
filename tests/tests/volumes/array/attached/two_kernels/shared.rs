//! A raw block device that both nodes write to (ReadWriteMany).

use super::{REFUSED, SECOND_NODE, Second, iscsi, nvme, placed, start_first};
use crate::array::attached::{BYTES, Node, run};
use std::fs;
use std::io::Write;
use std::path::Path;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::{
    ControllerPublishVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    VolumeCapability,
};
use wasmount_tests::array::Protocol;
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{Volume, code};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::peer::Peer;
use wasmount_tests::requests;

/// Size of a block that a test writes, in bytes.
const BLOCK_BYTES: u64 = 4096;

fn capability() -> VolumeCapability {
    Kind::Block.capability_in(Mode::MultiNodeMultiWriter)
}

/// Brings a raw device to a node, to its pod.
async fn show_shared(node: &Node, volume: &Volume) {
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.id.clone(),
        node_id: node.name.to_owned(),
        volume_capability: Some(capability()),
        ..ControllerPublishVolumeRequest::default()
    };
    let mut controller = node.orchestrator.clients().controller;
    let told = controller.controller_publish_volume(request).await.unwrap();
    let publish_context = told.into_inner().publish_context;
    let stage = NodeStageVolumeRequest {
        volume_capability: Some(capability()),
        publish_context: publish_context.clone(),
        ..requests::stage(&volume.id, &volume.staging)
    };
    node.orchestrator.stage_as(stage).await.unwrap();
    let publish = NodePublishVolumeRequest {
        volume_capability: Some(capability()),
        publish_context,
        ..requests::publish(&volume.id, &volume.staging, &volume.target)
    };
    node.orchestrator.publish_as(publish).await.unwrap();
}

/// Writes a block of a raw device, past the cache of this kernel.
fn write_block(volume: &Volume, number: u32, text: &str) {
    let mut block = tempfile::NamedTempFile::new().unwrap();
    block.write_all(text.as_bytes()).unwrap();
    block.as_file().set_len(BLOCK_BYTES).unwrap();
    copy_block(
        block.path(),
        &volume.target,
        &["oflag=direct", &format!("seek={number}")],
    );
}

/// Reads a block, past the cache.
fn read_block(volume: &Volume, number: u32) -> String {
    let block = tempfile::NamedTempFile::new().unwrap();
    copy_block(
        &volume.target,
        block.path(),
        &["iflag=direct", &format!("skip={number}")],
    );
    let text = fs::read_to_string(block.path()).unwrap();
    text.trim_end_matches('\0').to_owned()
}

fn copy_block(from: &Path, to: &Path, how: &[&str]) {
    let ends = [
        format!("if={}", from.display()),
        format!("of={}", to.display()),
    ];
    let size = format!("bs={BLOCK_BYTES}");
    let mut words = vec!["count=1", "conv=notrunc", "status=none", &size];
    words.extend(ends.iter().map(String::as_str));
    words.extend(how);
    run("dd", &words);
}

async fn raw_device_is_shared(protocol: Protocol) {
    needs_other_kernel();
    if Peer::number().unwrap() == 2 {
        return raw_device_is_shared_by_second(&protocol).await;
    }
    let (playground, mut peer) = start_first(protocol).await;
    let node = playground.node(&[]).await;
    let orchestrator = &node.orchestrator;
    let mut request = requests::create("pvc", BYTES);
    request.volume_capabilities = vec![capability()];
    let (id, _) = orchestrator.create(request).await.unwrap();
    let volume = orchestrator.place("pvc", id).unwrap();
    show_shared(&node, &volume).await;
    write_block(&volume, 1, "of the first kernel");
    peer.send(&volume.id).unwrap();
    // The other node has written.
    peer.meet(1).unwrap();
    assert_eq!(read_block(&volume, 2), "of the second kernel");
    write_block(&volume, 1, "once more");
    peer.meet(2).unwrap();
    // The other node has left, and its host has ended.
    peer.meet(3).unwrap();
    write_block(&volume, 1, "the last time");
    assert_eq!(read_block(&volume, 1), "the last time");
    assert_eq!(read_block(&volume, 2), "of the second kernel");
    node.remove(&volume).await.unwrap();
    playground.end();
}

async fn raw_device_is_shared_by_second(protocol: &Protocol) {
    let mut peer = Peer::find().unwrap();
    let second = Second::start(&mut peer, protocol);
    let node = second.node().await;
    let volume = placed(&node, peer.receive().unwrap());
    // Not with a file system, which only one kernel may mount.
    let refused = node.orchestrator.attach(&volume.id, SECOND_NODE).await;
    assert_eq!(code(&refused), REFUSED, "{refused:?}");
    show_shared(&node, &volume).await;
    assert_eq!(read_block(&volume, 1), "of the first kernel");
    write_block(&volume, 2, "of the second kernel");
    peer.meet(1).unwrap();
    peer.meet(2).unwrap();
    assert_eq!(read_block(&volume, 1), "once more");
    node.hide(&volume).await.unwrap();
    second.end();
    peer.meet(3).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_share_a_raw_device_over_iscsi() {
    raw_device_is_shared(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_share_a_raw_device_over_nvme() {
    raw_device_is_shared(nvme()).await;
}
