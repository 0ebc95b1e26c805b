//! Paths that fail under a writer.

use super::lives::Writer;
use super::{BYTES, Playground, attributes, iscsi, nvme, subsystems, until};
use wasmount_tests::multipath::{self, Daemons, maps, paths};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_writer_outlives_each_multipath_path() {
    let daemons = Daemons::start("strict").unwrap();
    let playground = Playground::start(iscsi()).await;
    let node = playground.node(&[]).await;
    let volume = node.bring(requests::create("pvc", BYTES)).await.unwrap();
    let [map] = maps().try_into().unwrap();
    until("the map has both paths", || paths(&map).len() == 2);
    let writer = Writer::start(&volume.target);
    for index in [0, 1] {
        assert!(playground.array().set_portal(index, false));
        until("a path is lost", || {
            multipath::states() == ["active", "failed"]
        });
        writer.wait_for_more();
        assert!(playground.array().set_portal(index, true));
        until("both paths carry requests", || {
            multipath::states() == ["active"; 2]
        });
    }
    // Both paths learn the new size, and the map and the file system after them.
    let grown = node
        .orchestrator
        .expand(requests::expand(&volume.id, 2 * BYTES));
    assert_eq!(grown.await.unwrap(), (2 * BYTES, true));
    let grown = requests::node_expand(&volume.id, &volume.target, 2 * BYTES);
    node.orchestrator.node_expand(grown).await.unwrap();
    let file_system = rustix::fs::statvfs(&volume.target).unwrap();
    assert!(file_system.f_blocks * file_system.f_frsize > BYTES as u64);
    writer.wait_for_more();
    writer.end();
    node.remove(&volume).await.unwrap();
    assert_eq!(maps(), [""; 0]);
    drop(daemons);
    playground.end();
}
