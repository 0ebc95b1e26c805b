//! A stage beside `iscsiadm`.

use super::target::{Lio, PORTAL, TARGET, assert_nothing_left, disks, wwid};
use super::volume::{Volume, host};
use crate::speed::{Times, rounds};
use crate::support::{run, until};
use std::fs;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_speed_of_a_stage_beside_iscsiadm() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let mut volume = Volume::of(1, 1);
    volume.is_raw = true;
    let node = ["-m", "node", "-T", TARGET, "-p", PORTAL];
    let iscsiadm = |more: &[&str]| run("iscsiadm", &[&node[..], more].concat());
    let mut times = Times::default();
    for _ in 0..rounds() {
        times
            .stage(async { host.stage(&volume).await.unwrap() })
            .await;
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
        times.by_hand(|| {
            iscsiadm(&["-o", "new"]);
            // It scans by itself.
            iscsiadm(&["--login"]);
            until("the disk can be opened", has_device);
        });
        assert_eq!(disks(), [wwid(1)]);
        iscsiadm(&["--logout"]);
        iscsiadm(&["-o", "delete"]);
        for directory in ["nodes", "ifaces", "send_targets"] {
            let _ = fs::remove_dir_all(Path::new("/etc/iscsi").join(directory));
        }
        assert_nothing_left();
    }
    times.print("iscsiadm");
}

/// Whether the only disk has a device that can be opened.
fn has_device() -> bool {
    let disks = fs::read_dir("/sys/class/scsi_disk").into_iter().flatten();
    let blocks = disks.map(|it| it.unwrap().path().join("device/block"));
    let names = blocks.flat_map(|it| fs::read_dir(it).into_iter().flatten());
    let mut devices = names.map(|it| Path::new("/dev").join(it.unwrap().file_name()));
    devices.any(|it| fs::File::open(it).is_ok())
}
