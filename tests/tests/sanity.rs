//! csi-sanity against plugins/directory and plugins/hostpath: whatever the driver offers is tested, nothing fails, and the number of specs that
//! run is known, so that an offer that went lost does not pass for a success.

#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::root::needs_root;
use wasmount_tests::sanity::{SanityOutcome, SanityRun};

/// Specs of csi-sanity 5.4.0 for what plugins/directory exports.
const OFFERED: usize = 45;

/// Those for snapshots, groups, lists, attaching, clones and modification, which it does not offer.
const NOT_OFFERED: usize = 46;

/// Specs for what plugins/hostpath exports.
const OFFERED_BY_HOSTPATH: usize = 67;

/// Those for groups, attaching and modification, which it does not offer.
const NOT_OFFERED_BY_HOSTPATH: usize = 24;

fn assert_passed(outcome: &SanityOutcome, offered: usize, not_offered: usize) {
    assert!(
        outcome.failed.is_empty(),
        "{:#?}\n{}",
        outcome.failed,
        outcome.output
    );
    let counts = (outcome.passed, outcome.skipped.len());
    assert_eq!(
        counts,
        (offered, not_offered),
        "skipped: {:#?}",
        outcome.skipped
    );
}

#[tokio::test]
async fn privileged_sanity_directory_one_process() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    host.client().await.unwrap();
    let outcome = SanityRun {
        endpoint: host.socket(),
        controller_endpoint: None,
        directory: &host.kubelet(),
        more: Vec::new(),
    }
    .run()
    .unwrap();
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
}

/// Each process has a store of its own: what the node must know travels in contexts. The pool is shared, as a network file system would be.
#[tokio::test]
async fn privileged_sanity_directory_controller_and_node_apart() {
    needs_root();
    let shared = tempfile::tempdir().unwrap();
    let document =
        documents::directory_over_pool(shared.path(), &shared.path().join("pool")).unwrap();
    let start = |role| {
        Host::start(HostOptions {
            backends: vec![document.clone()],
            role,
            ..HostOptions::default()
        })
        .unwrap()
    };
    let controller = start(HostRole::Controller);
    let node = start(HostRole::Node);
    controller.client().await.unwrap();
    node.client().await.unwrap();
    let outcome = SanityRun {
        endpoint: node.socket(),
        controller_endpoint: Some(controller.socket()),
        directory: &node.kubelet(),
        more: Vec::new(),
    }
    .run()
    .unwrap();
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
}

/// Volumes of one kind in one access type.
async fn hostpath(kind: &str, access_type: &str) {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let parameters = folder.path().join("parameters.yaml");
    std::fs::write(&parameters, format!("kind: {kind}\n")).unwrap();
    let host = Host::start(HostOptions {
        backends: vec![documents::hostpath_for_sanity(folder.path()).unwrap()],
        ..HostOptions::default()
    });
    let host = host.unwrap();
    host.client().await.unwrap();
    let flags = [
        "--csi.testvolumeparameters".into(),
        parameters.into_os_string(),
        "--csi.testvolumeaccesstype".into(),
        access_type.into(),
    ];
    let outcome = SanityRun {
        endpoint: host.socket(),
        controller_endpoint: None,
        directory: &host.kubelet(),
        more: flags.into(),
    }
    .run()
    .unwrap();
    assert_passed(&outcome, OFFERED_BY_HOSTPATH, NOT_OFFERED_BY_HOSTPATH);
}

#[tokio::test]
async fn privileged_sanity_hostpath_directories() {
    hostpath("directory", "mount").await;
}

#[tokio::test]
async fn privileged_sanity_hostpath_images() {
    hostpath("image", "mount").await;
}

#[tokio::test]
async fn privileged_sanity_hostpath_raw_block() {
    hostpath("image", "block").await;
}
