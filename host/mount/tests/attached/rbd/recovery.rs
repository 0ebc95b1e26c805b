//! What a killed host leaves mapped.

use super::cluster::{Cluster, assert_nothing_left, host, mapped};
use crate::support::until;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_image_of_ceph_without_record_is_unmapped() {
    let cluster = Cluster::start();
    let image = cluster.create("unrecorded");
    let host = host();
    host.stage(&image).await.unwrap();
    let mut host = host.restarted_without_run_directory();
    // In use.
    host.recover().await;
    assert_eq!(mapped().len(), 1);
    unmount(host.staging(&image), UnmountFlags::empty()).unwrap();
    host = host.restarted_without_run_directory();
    host.recover().await;
    until("the image is unmapped", || mapped().is_empty());
    host.stage(&image).await.unwrap();
    host.unstage(&image).await.unwrap();
    assert_nothing_left(&host);
    cluster.remove("unrecorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_what_a_killed_host_mapped_of_ceph_is_undone() {
    let cluster = Cluster::start();
    let image = cluster.create("killed");
    // Being staged or unstaged, before and after the mount.
    for progress in ["Coming", "Going"] {
        for is_mounted in [true, false] {
            let host = host();
            host.stage(&image).await.unwrap();
            let [file] = host.journal().try_into().unwrap();
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("Settled", progress)).unwrap();
            if !is_mounted {
                unmount(host.staging(&image), UnmountFlags::empty()).unwrap();
            }
            let host = host.restarted();
            host.recover().await;
            assert_nothing_left(&host);
            // Its background job, which unmaps images without a record, has ended when the next one has the directories.
            drop(host.restarted());
        }
    }
    cluster.remove("killed");
}
