//! What a killed host leaves. The test edits its records to the state of that moment; the state of kernel and target is real.

use super::target::{Target, assert_nothing_left, connect, controllers};
use super::volume::{HOST_NQN, Volume, host, uuid};
use crate::support::until;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;

const BYTES: u64 = 32 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_connection_outlives_its_host() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let volume = Volume::of(1);
    host.stage(&volume).await.unwrap();
    let host = host.restarted();
    host.recover().await;
    assert_eq!(controllers().len(), 1);
    host.stage(&volume).await.unwrap();
    fs::write(host.staging(&volume).join("file"), "kept").unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_what_a_killed_host_began_is_undone() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    // Being staged or unstaged, before and after the mount.
    for progress in ["Coming", "Going"] {
        for is_mounted in [true, false] {
            let host = host();
            let volume = Volume::of(1);
            host.stage(&volume).await.unwrap();
            let [file] = host.journal().try_into().unwrap();
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("Settled", progress)).unwrap();
            if !is_mounted {
                unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
            }
            let host = host.restarted();
            host.recover().await;
            assert_nothing_left(&host);
            host.stage(&volume).await.unwrap();
            host.unstage(&volume).await.unwrap();
            assert_nothing_left(&host);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_connect_of_a_killed_host_is_its_own() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let volume = Volume::of(1);
    host.stage(&volume).await.unwrap();
    // The host was killed between the connect and the record of it.
    let [record] = host.connections().try_into().unwrap();
    let text = fs::read_to_string(&record).unwrap();
    let (boot, _) = text.split_once(' ').unwrap();
    fs::write(&record, boot).unwrap();
    let host = host.restarted();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
    // A record that is older than somebody else's connection means nothing.
    host.stage(&volume).await.unwrap();
    fs::write(controllers()[0].join("delete_controller"), "1").unwrap();
    connect(0, &format!(",hostnqn={HOST_NQN}"));
    host.unstage(&volume).await.unwrap();
    assert_eq!(controllers().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_lost_run_directory_keeps_no_connection() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let volume = Volume::of(1);
    host.stage(&volume).await.unwrap();
    let host = host.restarted_without_run_directory();
    unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
    assert_eq!((controllers().len(), host.connections().len()), (1, 1));
    host.recover().await;
    until("no record", || host.connections().is_empty());
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_connection_without_a_document_ends() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    // With the record of its volume, and with that of the connection alone.
    for has_volume in [true, false] {
        let host = host();
        let volume = Volume::of(1);
        host.stage(&volume).await.unwrap();
        let host = host.restarted_without_document().await;
        assert_eq!(controllers().len(), 1);
        assert!(host.staging(&volume).join("lost+found").exists());
        unmount(host.staging(&volume), UnmountFlags::empty()).unwrap();
        if !has_volume {
            let [file] = host.journal().try_into().unwrap();
            fs::remove_file(file).unwrap();
        }
        let host = host.restarted_without_document().await;
        assert_nothing_left(&host);
    }
}
