//! Disks and sessions of others: what has another identity is never written to, and what others made stays.

use super::target::{DISK_BYTES, Lio, PORTAL, TARGET, assert_nothing_left, disks, sessions, wwid};
use super::volume::{Volume, host, host_of};
use crate::support::{run, until, until_ext4_rests, write_through};
use std::fs;
use wasmount_core::mounter::MountError;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_another_disk_at_the_number_is_not_touched() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let mut volume = Volume::of(1, 1);
    volume.wwid = wwid(2);
    let refused = host.stage(&volume).await.unwrap_err();
    assert!(matches!(refused, MountError::Unusable(_)), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&wwid(1)) && text.contains(&wwid(2)), "{text}");
    assert!(lio.content(1).iter().all(|byte| *byte == 0));
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_reused_number_is_never_the_disk_before() {
    let lio = Lio::start();
    lio.offer(1, 1);
    lio.offer(2, 2);
    let host = host();
    let neighbour = Volume::of(2, 2);
    host.stage(&neighbour).await.unwrap();
    // What a host of long ago left behind on the session: a disk whose number then became another one's.
    let session = fs::read_dir("/sys/class/iscsi_session").unwrap();
    let session = session.map(|it| it.unwrap().path()).next().unwrap();
    let place = fs::canonicalize(session).unwrap();
    let place = place.to_str().unwrap();
    let host_number = place
        .split("/host")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let scan = format!("/sys/class/scsi_host/host{host_number}/scan");
    fs::write(scan, "0 0 1").unwrap();
    until("the disk appears", || disks().contains(&wwid(1)));
    lio.unmap(1);
    lio.offer(1, 3);
    // The kernel still takes it for the first disk.
    assert!(disks().contains(&wwid(1)));
    let refused = host.stage(&Volume::of(1, 1)).await.unwrap_err();
    assert!(refused.to_string().contains(&wwid(3)), "{refused}");
    for number in [1, 3] {
        assert!(lio.content(number).iter().all(|byte| *byte == 0));
    }
    let reused = Volume::of(1, 3);
    host.stage(&reused).await.unwrap();
    assert_eq!(disks(), [wwid(2), wwid(3)]);
    host.unstage(&reused).await.unwrap();
    host.unstage(&neighbour).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_used_disk_does_not_become_another_one() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let forced = Volume::of(1, 1);
    host.stage(&forced).await.unwrap();
    let file = host.staging(&forced).join("file");
    let write = |text: &str| write_through(&file, text);
    write("written").unwrap();
    until_ext4_rests();
    // Another node gets the volume, and the number leads to a new disk.
    lio.unmap(1);
    lio.offer(1, 3);
    let reused = Volume::of(1, 3);
    let refused = host.stage(&reused).await.unwrap_err();
    assert!(matches!(refused, MountError::InUse(_)), "{refused}");
    write("of the volume before").unwrap_err();
    host.unstage(&forced).await.unwrap();
    assert!(lio.content(3).iter().all(|byte| *byte == 0));
    host.stage(&reused).await.unwrap();
    assert_eq!(disks(), [wwid(3)]);
    host.unstage(&reused).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_that_became_another_does_not_grow() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    let blocks = || rustix::fs::statvfs(host.staging(&volume)).unwrap().f_blocks;
    let before = blocks();
    until_ext4_rests();
    // The number leads to a larger disk.
    lio.unmap(1);
    lio.offer(1, 3);
    lio.grow(3, 2 * DISK_BYTES);
    let refused = host.expand(&volume, 2 * DISK_BYTES).await.unwrap_err();
    assert!(matches!(refused, MountError::Unusable(_)), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&wwid(1)) && text.contains(&wwid(3)), "{text}");
    assert_eq!(blocks(), before);
    host.unstage(&volume).await.unwrap();
    let content = lio.content(3);
    assert_eq!(content.iter().position(|byte| *byte != 0), None);
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_of_one_volume_is_not_anothers() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let mut volume = Volume::of(1, 1);
    // It makes no exclusive claim.
    volume.is_raw = true;
    host.stage(&volume).await.unwrap();
    let same_place = Volume::of(1, 2);
    let mut same_disk = Volume::of(2, 1);
    same_disk.name = "other".to_owned();
    for other in [same_place, same_disk] {
        let refused = host.stage(&other).await.unwrap_err();
        assert!(matches!(refused, MountError::InUse(_)), "{refused}");
        assert!(refused.to_string().contains("volume v1"), "{refused}");
        host.unstage(&other).await.unwrap();
        assert_eq!(disks(), [wwid(1)]);
    }
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_sessions_of_others_stay() {
    let lio = Lio::start();
    lio.offer(1, 1);
    lio.offer(2, 2);
    let node = ["-m", "node", "-T", TARGET, "-p", PORTAL];
    run("iscsiadm", &[&node[..], &["-o", "new"]].concat());
    let manual = ["-o", "update", "-n", "node.session.scan", "-v", "manual"];
    run("iscsiadm", &[&node[..], &manual].concat());
    run("iscsiadm", &[&node[..], &["--login"]].concat());
    let [one, other] = [host_of("one.test"), host_of("other.test")];
    let [first, second] = [Volume::of(1, 1), Volume::of(2, 2)];
    one.stage(&first).await.unwrap();
    other.stage(&second).await.unwrap();
    // One of the administrator, and one of each driver.
    assert_eq!(sessions().len(), 3);
    one.unstage(&first).await.unwrap();
    assert_eq!(sessions().len(), 2);
    fs::write(other.staging(&second).join("file"), "written").unwrap();
    other.unstage(&second).await.unwrap();
    assert_eq!(sessions(), ["default"]);
    run("iscsiadm", &[&node[..], &["--logout"]].concat());
    run("iscsiadm", &[&node[..], &["-o", "delete"]].concat());
    let _ = fs::remove_dir_all("/etc/iscsi/nodes");
    let _ = fs::remove_dir_all("/etc/iscsi/ifaces");
    assert_nothing_left();
}
