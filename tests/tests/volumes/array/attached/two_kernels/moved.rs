//! A volume of one writer moves between the nodes: the one that does not have it is refused, and its kernel never gets the disk.

use super::{Context, REFUSED, SECOND_NODE, Second, iscsi, nvme, placed, read, start_first, write};
use crate::array::attached::{BYTES, NODE, Node, assert_node_is_free};
use wasmount_tests::array::Protocol;
use wasmount_tests::orchestrator::{Volume, code};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::peer::Peer;
use wasmount_tests::requests;

/// Its node asks for a volume that the other node has, and its kernel never gets the disk: not even if it is told what the other node was told.
async fn is_refused(node: &Node, volume: &Volume, told: Context) {
    let refused = node.orchestrator.attach(&volume.id, node.name).await;
    assert_eq!(code(&refused), REFUSED, "{refused:?}");
    let mut stage = requests::stage(&volume.id, &volume.staging);
    stage.publish_context = told;
    node.orchestrator.stage_as(stage).await.unwrap_err();
    assert_node_is_free();
    node.orchestrator.unstage(volume).await.unwrap();
}

async fn volume_moves(protocol: Protocol) {
    needs_other_kernel();
    if Peer::number().unwrap() == 2 {
        return volume_moves_to_second(&protocol).await;
    }
    let (playground, mut peer) = start_first(protocol).await;
    let node = playground.node(&[]).await;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    write(&volume, "of the first kernel").unwrap();
    let told = node.orchestrator.attach(&volume.id, NODE).await.unwrap();
    peer.send(&(&volume.id, told)).unwrap();
    // The other node was refused.
    peer.meet(1).unwrap();
    assert_eq!(read(&volume), "of the first kernel");
    node.hide(&volume).await.unwrap();
    peer.meet(2).unwrap();
    // The other node has it.
    let told: Context = peer.receive().unwrap();
    is_refused(&node, &volume, told).await;
    peer.meet(3).unwrap();
    // The other node does not have it any more, and its host has ended.
    peer.meet(4).unwrap();
    node.show(&volume).await.unwrap();
    assert_eq!(read(&volume), "of the second kernel");
    node.remove(&volume).await.unwrap();
    playground.end();
}

async fn volume_moves_to_second(protocol: &Protocol) {
    let mut peer = Peer::find().unwrap();
    let second = Second::start(&mut peer, protocol);
    let node = second.node().await;
    let (id, told): (String, Context) = peer.receive().unwrap();
    let volume = placed(&node, id);
    is_refused(&node, &volume, told).await;
    peer.meet(1).unwrap();
    peer.meet(2).unwrap();
    node.show(&volume).await.unwrap();
    assert_eq!(read(&volume), "of the first kernel");
    let told = node.orchestrator.attach(&volume.id, SECOND_NODE).await;
    peer.send(&told.unwrap()).unwrap();
    peer.meet(3).unwrap();
    write(&volume, "of the second kernel").unwrap();
    node.hide(&volume).await.unwrap();
    second.end();
    peer.meet(4).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_move_a_volume_over_iscsi() {
    volume_moves(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_move_a_volume_over_nvme() {
    volume_moves(nvme()).await;
}
