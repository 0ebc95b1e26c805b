//! A node that loses its power while pods use volumes of an array, and starts again: two VMs, one after the other, with one disk
//! (`cargo xtask vm --power-cut`). The array is there too, so what it has not written is lost as well.

use super::{BYTES, Node, Playground, assert_node_is_free, iscsi, nvme, prepare_node, run};
use std::fs;
use std::io::Write;
use std::path::Path;
use wasmount_tests::array::Protocol;
use wasmount_tests::host::HostOptions;
use wasmount_tests::orchestrator::Volume;
use wasmount_tests::requests;

/// On the disk of both VMs.
const FOLDER: &str = "/tmp/power-cut-of-volumes";
/// Says which of them it is.
const BOOT: &str = "WASMOUNT_VM_BOOT";
/// Where the first one asks for the power cut.
const POWER_CUT: &str = "/media/power-cut";
/// More than one page, so that the allocation of blocks counts too.
const WRITTEN_BYTES: usize = 1 << 20;
/// The management of the arrays, which the document names before and after the boot.
const ISCSI_ARRAY: &str = "127.0.0.1:8081";
const NVME_ARRAY: &str = "127.0.0.1:8082";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_volumes_in_use_survive_a_power_cut() {
    let boot = std::env::var(BOOT);
    let boot = boot.expect("this test needs `cargo xtask vm --power-cut`");
    prepare_node();
    match boot.as_str() {
        "1" => {
            // What kept them in use until the power cut.
            let _playgrounds = (
                lose_power(ISCSI_ARRAY, iscsi()).await,
                lose_power(NVME_ARRAY, nvme()).await,
            );
            fs::write(POWER_CUT, "").unwrap();
            loop {
                std::thread::park();
            }
        }
        _ => {
            return_after(ISCSI_ARRAY, iscsi()).await;
            return_after(NVME_ARRAY, nvme()).await;
        }
    }
}

async fn start(array: &str, protocol: Protocol) -> Playground {
    let folder = Path::new(FOLDER).join(array);
    let options = HostOptions {
        any_paths: true,
        root: Some(folder.join("host")),
        ..HostOptions::default()
    };
    Playground::start_in(&folder, None, array.parse().unwrap(), protocol, options).await
}

/// Publishes a volume to a pod, which writes to it, and leaves it so.
async fn lose_power(array: &str, protocol: Protocol) -> Playground {
    let playground = start(array, protocol).await;
    let node = playground.node(&[]).await;
    let volume = created(&node).await;
    // What the array and the node had before the volume came to the node.
    rustix::fs::sync();
    node.show(&volume).await.unwrap();
    let file = |name: &str| fs::File::create(volume.target.join(name)).unwrap();
    let mut durable = file("durable");
    durable.write_all(&[7; WRITTEN_BYTES]).unwrap();
    durable.sync_all().unwrap();
    fs::File::open(&volume.target)
        .and_then(|directory| directory.sync_all())
        .unwrap();
    // The file system is not unmounted, and has more to write.
    file("not-synced").write_all(&[8; WRITTEN_BYTES]).unwrap();
    playground
}

/// Brings the volume to its pod again, as kubelet does after a boot: without an unpublish or an unstage before.
async fn return_after(array: &str, protocol: Protocol) {
    // It lies below `/run` on a node, and ends with each boot.
    fs::remove_dir_all(Path::new(FOLDER).join(array).join("host/run")).unwrap();
    let playground = start(array, protocol).await;
    let node = playground.node(&[]).await;
    // Nothing of before the power cut is attached again by itself.
    assert_node_is_free();
    let volume = created(&node).await;
    assert!(
        volume.target.is_dir(),
        "kubelet's directories outlive a boot"
    );
    node.show(&volume).await.unwrap();
    let durable = fs::read(volume.target.join("durable")).unwrap();
    assert!(durable == [7; WRITTEN_BYTES], "{} bytes", durable.len());
    fs::write(volume.target.join("durable"), "after the power cut").unwrap();
    node.hide(&volume).await.unwrap();
    let file = playground.contents.join(&volume.id);
    run("e2fsck", &["-f", "-n", file.to_str().unwrap()]);
    node.remove(&volume).await.unwrap();
    playground.end();
}

/// The volume, which is created once.
async fn created(node: &Node) -> Volume {
    let create = || node.orchestrator.create(requests::create("pvc", BYTES));
    let (id, _) = create().await.unwrap();
    node.orchestrator.place("pvc", id).unwrap()
}
