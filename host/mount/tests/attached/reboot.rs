//! A node that loses its power with volumes staged, and starts again: two VMs, one after the other, with one disk (`cargo xtask vm --power-cut`).

use crate::host::{Host, Volume};
use crate::kills::Scene;
use crate::support::run;
use crate::{iscsi, nvme};
use std::fs;
use std::io::Write;
use std::path::Path;

/// On the disk of both VMs.
const FOLDER: &str = "/tmp/power-cut";
/// Says which of them it is.
const BOOT: &str = "WASMOUNT_VM_BOOT";
/// Where the first one asks for the power cut.
const POWER_CUT: &str = "/media/power-cut";
/// The number of the disk.
const DISK: u32 = 1;
/// More than one page, so that the allocation of blocks counts too.
const BYTES: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_staged_volumes_survive_a_power_cut() {
    let boot = std::env::var(BOOT);
    let boot = boot.expect("this test needs `cargo xtask vm --power-cut`");
    let folder = Path::new(FOLDER);
    let mut iscsi = iscsi::Killed::in_folder(&folder.join("iscsi-target"));
    let mut nvme = nvme::Killed::in_folder(&folder.join("nvme-target"));
    match boot.as_str() {
        "1" => {
            // What kept them staged until the power cut.
            let _hosts = (
                lose_power(&mut iscsi, &folder.join("iscsi")).await,
                lose_power(&mut nvme, &folder.join("nvme")).await,
            );
            fs::write(POWER_CUT, "").unwrap();
            loop {
                std::thread::park();
            }
        }
        _ => {
            return_after(&mut iscsi, &folder.join("iscsi")).await;
            return_after(&mut nvme, &folder.join("nvme")).await;
        }
    }
}

/// Stages a volume, writes to it, and leaves it so.
async fn lose_power<S: Scene>(scene: &mut S, folder: &Path) -> Host {
    scene.offer(DISK);
    let host = S::host(folder);
    // What the node had before the volume came.
    rustix::fs::sync();
    let volume = S::volume(DISK);
    host.stage(&volume).await.unwrap();
    let file = |name: &str| fs::File::create(host.staging(&volume).join(name)).unwrap();
    let mut durable = file("durable");
    durable.write_all(&[7; BYTES]).unwrap();
    durable.sync_all().unwrap();
    fs::File::open(host.staging(&volume))
        .and_then(|directory| directory.sync_all())
        .unwrap();
    // The file system is not unmounted, and has more to write.
    file("not-synced").write_all(&[8; BYTES]).unwrap();
    host
}

/// Stages the volume on a node that knows of nothing but what is on its disk.
async fn return_after<S: Scene>(scene: &mut S, folder: &Path) {
    scene.offer(DISK);
    // It lies below `/run` on a node, and ends with each boot.
    fs::remove_dir_all(folder.join("run")).unwrap();
    let host = S::host(folder);
    host.recover().await;
    S::assert_nothing_left(&host);
    let volume = S::volume(DISK);
    let staging = host.staging(&volume);
    assert!(staging.is_dir(), "kubelet's directory of {}", volume.name());
    host.stage(&volume).await.unwrap();
    assert_eq!(fs::read(staging.join("durable")).unwrap(), [7; BYTES]);
    fs::write(staging.join("durable"), "after the power cut").unwrap();
    host.unstage(&volume).await.unwrap();
    S::assert_nothing_left(&host);
    let image = scene.file(DISK);
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
}
