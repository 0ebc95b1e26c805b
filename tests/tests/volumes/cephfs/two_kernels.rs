//! One volume on two kernels at once (ReadWriteMany). The test runs on both (`cargo xtask vm --two`): the first has Ceph and the controller, both are nodes.

use super::{MIB, Scene, Staged, host};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::peer::{FIRST, Peer};

/// Lines that both kernels append in turn.
const LINES: u32 = 20;

#[tokio::test]
async fn on_other_kernel_two_kernels_share_a_volume_of_cephfs() {
    needs_other_kernel();
    match Peer::number().unwrap() {
        1 => first().await,
        _ => second().await,
    }
}

/// Creates the volume, and tells the other kernel what a CO would.
async fn first() {
    let mut scene = Scene::at(FIRST);
    let mut peer = Peer::find().unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let volume = Staged::create(&orchestrator, "shared", 64 * MIB, None).await;
    peer.send(&(&volume.volume.id, &volume.context)).unwrap();
    use_in_turns(&volume, 1, &mut peer);
    // The other node leaves, and the volume goes on.
    peer.meet(1).unwrap();
    append(&volume, "last\n");
    assert_eq!(volume.read(), turns(2 * LINES) + "last\n");
    peer.meet(2).unwrap();
    // It came back, read that, and left again.
    peer.meet(3).unwrap();
    volume.delete(&orchestrator).await;
    scene.assert_nothing_left();
    assert!(scene.host.terminate().unwrap().success());
}

async fn second() {
    let mut peer = Peer::find().unwrap();
    let (id, context): (String, BTreeMap<String, String>) = peer.receive().unwrap();
    // Its document has no key of Ceph but the secret that opens.
    let (mut host, _folder) = host(FIRST, "none");
    let orchestrator = host.orchestrator().await.unwrap();
    let stage = async |orchestrator: &Orchestrator| {
        Staged::stage(orchestrator, "shared", id.clone(), context.clone()).await
    };
    let volume = stage(&orchestrator).await;
    use_in_turns(&volume, 2, &mut peer);
    volume.leave(&orchestrator).await;
    peer.meet(1).unwrap();
    peer.meet(2).unwrap();
    let volume = stage(&orchestrator).await;
    assert_eq!(volume.read(), turns(2 * LINES) + "last\n");
    volume.leave(&orchestrator).await;
    peer.meet(3).unwrap();
    assert!(host.terminate().unwrap().success());
}

/// Each kernel appends a line after it has read the other's.
fn use_in_turns(volume: &Staged, number: u32, peer: &mut Peer) {
    for turn in 0..2 * LINES {
        if turn % 2 + 1 == number {
            if turn > 0 {
                assert_eq!(volume.read(), turns(turn));
            }
            append(volume, &line(turn));
            peer.send(&turn).unwrap();
        } else {
            assert_eq!(peer.receive::<u32>().unwrap(), turn);
        }
    }
    assert_eq!(volume.read(), turns(2 * LINES));
}

fn append(volume: &Staged, text: &str) {
    let path = volume.volume.target.join("data");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// What is written in a turn.
fn line(turn: u32) -> String {
    format!("{} {}\n", turn % 2 + 1, turn / 2)
}

/// What both kernels have written after that many turns.
fn turns(count: u32) -> String {
    (0..count).map(line).collect()
}
