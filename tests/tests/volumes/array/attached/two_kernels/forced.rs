//! A volume is taken from a node by force, and its LUN given to another one.

use super::{Context, Second, iscsi, nvme, placed, read, start_first, write};
use crate::array::attached::{BYTES, NODE, entries};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tonic::Code;
use wasmount_tests::array::Protocol;
use wasmount_tests::orchestrator::code;
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::peer::Peer;
use wasmount_tests::requests;
use wasmount_tests::secret_search::SecretSearch;

/// After this many seconds the first node's kernel fails requests for a namespace without a path, which an administrator can choose.
const FAIL_SECONDS: &str = "1";

/// The LUN that a node was told.
fn lun(told: &Context) -> String {
    let connection: serde_json::Value = serde_json::from_str(&told["connection"]).unwrap();
    connection["lun"].to_string()
}

/// Has this kernel fail what waits for a lost path to a namespace.
fn fail_soon() {
    for controller in entries(Path::new("/sys/class/nvme")) {
        fs::write(controller.join("fast_io_fail_tmo"), FAIL_SECONDS).unwrap();
    }
}

/// A volume is taken from a node whose pod goes on, and given to the other node. Neither it nor its LUN comes back to that pod.
async fn volume_is_taken_by_force(protocol: Protocol) {
    needs_other_kernel();
    if Peer::number().unwrap() == 2 {
        return volume_is_taken_by_second(&protocol).await;
    }
    let (playground, mut peer) = start_first(protocol.clone()).await;
    let node = playground.node(&[]).await;
    let orchestrator = &node.orchestrator;
    let taken = node.bring(requests::create("taken", BYTES)).await.unwrap();
    write(&taken, "of the first kernel").unwrap();
    fail_soon();
    let told_before = orchestrator.attach(&taken.id, NODE).await.unwrap();
    orchestrator.detach(&taken.id, NODE).await.unwrap();

    let (id, _) = orchestrator
        .create(requests::create("new", BYTES))
        .await
        .unwrap();
    let new = orchestrator.place("new", id).unwrap();
    let told = orchestrator.attach(&new.id, NODE).await.unwrap();
    let mut stage = requests::stage(&new.id, &new.staging);
    stage.publish_context = told.clone();
    let staged = orchestrator.stage_as(stage).await;
    let stored = || fs::read(playground.contents.join(&new.id)).unwrap();
    match protocol {
        // Behind its LUN is the new volume, which the pod does not reach.
        Protocol::Iscsi(_) => {
            assert_eq!(lun(&told), lun(&told_before));
            assert_eq!(code(&staged), Code::FailedPrecondition, "{staged:?}");
            write(&taken, "to nobody").unwrap_err();
            let stored = stored();
            assert!(stored == vec![0; stored.len()]);
        }
        // Each volume is a subsystem of its own.
        _ => {
            staged.unwrap();
            write(&taken, "to nobody").unwrap_err();
        }
    }
    peer.send(&taken.id).unwrap();
    // The other node has it, and wrote to it.
    peer.meet(1).unwrap();
    write(&taken, "to nobody").unwrap_err();
    orchestrator.unpublish(&taken).await.unwrap();
    orchestrator.unstage(&taken).await.unwrap();
    node.show(&new).await.unwrap();
    write(&new, "of the new volume").unwrap();
    let lost = SecretSearch::of(["to nobody", "of the first kernel"]).unwrap();
    assert_eq!(lost.found_in(stored()), BTreeSet::new());
    // The other node does not have it any more, and its host has ended.
    peer.meet(2).unwrap();
    node.show(&taken).await.unwrap();
    assert_eq!(read(&taken), "of the second kernel");
    assert_eq!(read(&new), "of the new volume");
    for volume in [&taken, &new] {
        node.remove(volume).await.unwrap();
    }
    playground.end();
}

async fn volume_is_taken_by_second(protocol: &Protocol) {
    let mut peer = Peer::find().unwrap();
    let second = Second::start(&mut peer, protocol);
    let node = second.node().await;
    let volume = placed(&node, peer.receive().unwrap());
    node.show(&volume).await.unwrap();
    assert_eq!(read(&volume), "of the first kernel");
    write(&volume, "of the second kernel").unwrap();
    peer.meet(1).unwrap();
    node.hide(&volume).await.unwrap();
    second.end();
    peer.meet(2).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_take_by_force_over_iscsi() {
    volume_is_taken_by_force(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_two_kernels_take_by_force_over_nvme() {
    volume_is_taken_by_force(nvme()).await;
}
