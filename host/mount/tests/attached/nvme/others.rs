//! Namespaces and connections of others: what has another identity is never written to, and what others connected stays.

use super::target::{Target, assert_nothing_left, connect, controllers};
use super::volume::{HOST_NQN, Volume, host, uuid};
use crate::support::{run, until, until_ext4_rests, write_through};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use wasmount_core::mounter::MountError;

const BYTES: u64 = 32 << 20;

fn assert_untouched(target: &Target, id: u32) {
    let content = fs::read(target.file(id)).unwrap();
    assert!(content.iter().all(|byte| *byte == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_another_namespace_is_not_touched() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let refused = host.stage(&Volume::of(2)).await.unwrap_err();
    assert!(matches!(refused, MountError::NotFound(_)), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains(&uuid(2)) && text.contains("127.0.0.1:4420 live"),
        "{text}"
    );
    assert_untouched(&target, 1);
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_reused_number_is_never_the_one_before() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    target.add(2, &uuid(2), BYTES);
    let host = host();
    // Keeps the connection, by which the kernel knows the first namespace.
    let neighbour = Volume::of(2);
    host.stage(&neighbour).await.unwrap();
    target.remove(1);
    target.add(1, &uuid(3), BYTES);
    let refused = host.stage(&Volume::of(1)).await.unwrap_err();
    assert!(refused.to_string().contains(&uuid(1)), "{refused}");
    assert_untouched(&target, 1);
    let reused = Volume::of(3);
    host.stage(&reused).await.unwrap();
    host.unstage(&reused).await.unwrap();
    host.unstage(&neighbour).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_used_namespace_does_not_become_another() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let forced = Volume::of(1);
    host.stage(&forced).await.unwrap();
    let file = host.staging(&forced).join("file");
    let write = |text: &str| write_through(&file, text);
    write("written").unwrap();
    until_ext4_rests();
    // Another node gets the volume, and the number leads to a new namespace, which is larger.
    target.remove(1);
    target.add(1, &uuid(3), 2 * BYTES);
    for controller in controllers() {
        fs::write(controller.join("rescan_controller"), "1").unwrap();
    }
    until("the namespace is gone", || {
        write("of the volume before").is_err()
    });
    let refused = host.expand(&forced, 2 * BYTES).await.unwrap_err();
    assert!(refused.to_string().contains(&uuid(1)), "{refused}");
    assert_untouched(&target, 1);
    let reused = Volume::of(3);
    host.stage(&reused).await.unwrap();
    assert!(write("of the volume before").is_err());
    let names = fs::read_dir(host.staging(&reused)).unwrap();
    let names = names.map(|it| it.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["lost+found"]);
    host.unstage(&forced).await.unwrap();
    host.unstage(&reused).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_connection_of_others_is_used_and_stays() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    connect(0, &format!(",hostnqn={HOST_NQN}"));
    let host = host();
    let volume = Volume::of(1);
    host.stage(&volume).await.unwrap();
    assert_eq!((controllers().len(), host.connections().len()), (1, 0));
    host.unstage(&volume).await.unwrap();
    assert_eq!(controllers().len(), 1);
    // Its own is another one, once the administrator has disconnected.
    fs::write(controllers()[0].join("delete_controller"), "1").unwrap();
    host.stage(&volume).await.unwrap();
    assert_eq!((controllers().len(), host.connections().len()), (1, 1));
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_namespace_in_use_keeps_the_connection() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    target.add(2, &uuid(2), BYTES);
    let host = host();
    host.stage(&Volume::of(1)).await.unwrap();
    // The administrator mounts another namespace over the connection of the host.
    let device = target.device(2);
    run("mkfs.ext4", &["-q", &device]);
    let mount = tempfile::tempdir().unwrap();
    let at = mount.path().to_str().unwrap();
    run("mount", &[&device, at]);
    host.unstage(&Volume::of(1)).await.unwrap();
    // Ends connections without a record before it returns, unlike the start of a host with a document.
    let host = host.restarted_without_document().await;
    assert_eq!((controllers().len(), host.connections().len()), (1, 1));
    fs::write(mount.path().join("file"), "kept").unwrap();
    let mut host = host.restarted();
    run("umount", &[at]);
    // It ends with the next volume, or at the next start.
    for with_volume in [true, false] {
        if with_volume {
            host.stage(&Volume::of(1)).await.unwrap();
            host.unstage(&Volume::of(1)).await.unwrap();
        } else {
            host.stage(&Volume::of(1)).await.unwrap();
            unmount(host.staging(&Volume::of(1)), UnmountFlags::empty()).unwrap();
            for record in host.journal() {
                fs::remove_file(record).unwrap();
            }
            host = host.restarted();
            host.recover().await;
            until("no connection", || controllers().is_empty());
        }
        until("no record", || host.connections().is_empty());
        assert_nothing_left(&host);
    }
}
