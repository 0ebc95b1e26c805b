//! Paths that fail under a writer.

use super::lives::Writer;
use super::{BYTES, Playground, attributes, iscsi, nvme, subsystems, until};
use wasmount_tests::requests;

/// The states of all sessions, or of all connections, in order.
fn states(class: &str) -> Vec<String> {
    let mut states = attributes(class, "state");
    states.sort();
    states
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_writer_outlives_each_nvme_path() {
    let playground = Playground::start(nvme()).await;
    let node = playground.node(&[]).await;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    assert_eq!(subsystems().len(), 2);
    let writer = Writer::start(&volume.target);
    for index in [0, 1] {
        assert!(playground.array().set_portal(index, false));
        until("a path is lost", || {
            states("/sys/class/nvme") == ["connecting", "live"]
        });
        writer.wait_for_more();
        assert!(playground.array().set_portal(index, true));
        until("the path is back", || {
            states("/sys/class/nvme") == ["live", "live"]
        });
    }
    writer.end();
    node.remove(&volume).await.unwrap();
    playground.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_writer_waits_for_its_iscsi_portal() {
    let playground = Playground::start(iscsi()).await;
    let node = playground.node(&[]).await;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    let writer = Writer::start(&volume.target);
    writer.wait_for_more();
    assert!(playground.array().set_portal(0, false));
    until("its session is lost", || {
        states("/sys/class/iscsi_session") == ["FAILED"]
    });
    // Another volume takes the other portal meanwhile.
    let other = node.bring(requests::create("other", BYTES)).await.unwrap();
    other.write("by the other portal").unwrap();
    assert_eq!(states("/sys/class/iscsi_session"), ["FAILED", "LOGGED_IN"]);
    assert!(playground.array().set_portal(0, true));
    writer.wait_for_more();
    writer.end();
    for volume in [&volume, &other] {
        node.remove(volume).await.unwrap();
    }
    playground.end();
}
