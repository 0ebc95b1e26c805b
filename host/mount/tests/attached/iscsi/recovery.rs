//! What a killed host leaves. The test edits the journal to the state of that moment; the state of kernel and target is real.

use super::target::{Lio, assert_nothing_left, disks, sessions};
use super::volume::{Volume, host};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_staged_disk_outlives_its_host() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    let host = host.restarted();
    host.recover().await;
    assert_eq!((sessions().len(), disks().len()), (1, 1));
    host.stage(&volume).await.unwrap();
    fs::write(host.staging(&volume).join("file"), "kept").unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_what_a_killed_host_began_is_undone() {
    let lio = Lio::start();
    lio.offer(1, 1);
    // Being staged or unstaged, before and after the mount.
    for progress in ["Coming", "Going"] {
        for is_mounted in [true, false] {
            let host = host();
            let volume = Volume::of(1, 1);
            host.stage(&volume).await.unwrap();
            let [file] = host.journal().try_into().unwrap();
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("Settled", progress)).unwrap();
            if !is_mounted {
                unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
            }
            let host = host.restarted();
            host.recover().await;
            assert_nothing_left();
            assert_eq!(host.journal().len(), 0);
            host.stage(&volume).await.unwrap();
            host.unstage(&volume).await.unwrap();
            assert_nothing_left();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_record_without_a_session_is_dropped() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    // As a reboot takes mount, disk and session.
    let [file] = host.journal().try_into().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
    let mut host = host;
    for progress in ["Settled", "Coming", "Going"] {
        fs::write(&file, text.replace("Settled", progress)).unwrap();
        host = host.restarted();
        host.recover().await;
        assert_eq!(host.journal().len(), 0, "{progress}");
    }
    assert_nothing_left();
}
