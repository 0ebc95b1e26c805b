//! Volumes on the server: one on two mounts, one whose directory was replaced, and one that its pool must not remove.

use crate::host::{Host, NAS, create, remove};
use crate::server::{Knfsd, SHARE};
use std::fs;
use std::os::unix::fs::symlink;
use wasmount_core::mounter::MountError;

fn source(volume: &str) -> String {
    Knfsd::source(&format!("{SHARE}/{volume}"))
}

#[tokio::test]
async fn on_other_kernel_a_volume_is_written_and_read_on_two_hosts() {
    let _server = Knfsd::start();
    let controller = Host::new(SHARE, &[]);
    controller.call(create(NAS, "v")).await.unwrap();
    let nodes = [Host::new(SHARE, &[]), Host::new(SHARE, &[])];
    for node in &nodes {
        node.stage("v", &source("v")).await.unwrap();
        // Only the controller has the pool.
        assert_eq!(node.mounts().len(), 0);
    }
    let [one, two] = &nodes;
    fs::write(one.staging("v").join("file"), "one").unwrap();
    assert_eq!(
        fs::read_to_string(two.staging("v").join("file")).unwrap(),
        "one"
    );
    fs::write(two.staging("v").join("file"), "two").unwrap();
    assert_eq!(
        fs::read_to_string(one.staging("v").join("file")).unwrap(),
        "two"
    );
    for node in &nodes {
        node.unstage("v").await.unwrap();
    }
    controller.call(remove(NAS, "v")).await.unwrap();
}

#[tokio::test]
async fn on_other_kernel_a_volume_in_use_is_not_removed() {
    let server = Knfsd::start();
    let host = Host::new(SHARE, &[]);
    host.call(create(NAS, "v")).await.unwrap();
    host.stage("v", &source("v")).await.unwrap();
    let refused = host.call(remove(NAS, "v")).await;
    assert!(matches!(refused, Err(MountError::InUse(_))), "{refused:?}");
    assert!(server.share().join("v").is_dir());
    host.unstage("v").await.unwrap();
    host.call(remove(NAS, "v")).await.unwrap();
    assert!(!server.share().join("v").exists());
}

#[tokio::test]
async fn on_other_kernel_a_volume_that_leads_elsewhere_is_refused() {
    let server = Knfsd::start();
    fs::create_dir(server.disk().join("secret")).unwrap();
    symlink("../secret", server.share().join("v")).unwrap();
    let host = Host::new(SHARE, &[]);
    let refused = host.stage("v", &source("v")).await;
    assert!(
        matches!(refused, Err(MountError::NotGranted { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(host.staging("v")).unwrap().count(), 0);
}
