//! plugins/nfs on the kernel's own server. csi-sanity: no spec fails, and the number of specs that run is known.

mod controller;
mod kerberos;
#[path = "../../../host/mount/tests/nfs/server.rs"]
#[allow(dead_code, reason = "the tests of the mounter use more of it")]
mod server;

use crate::sanity::assert_passed;
use server::{Knfsd, SHARE};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use wasmount_tests::sanity::SanityRun;
use xtask::tools::{CSI_SANITY_5_4, CSI_SANITY_5_6, Tool};

/// Specs of csi-sanity 5.4.0 for what plugins/nfs exports.
const OFFERED_5_4: usize = 67;

/// Those for attaching, groups and modification, which a share does not need.
const NOT_OFFERED_5_4: usize = 24;

/// Of csi-sanity 5.6.0.
const OFFERED_5_6: usize = 71;

/// The same, and those for CSI 1.13.
const NOT_OFFERED_5_6: usize = 31;

async fn sanity(tool: Tool, hidden: &[&str], offered: usize, not_offered: usize) {
    needs_root();
    let server = Knfsd::start();
    let folder = tempfile::tempdir().unwrap();
    let document = documents::nfs(folder.path(), &Knfsd::source(SHARE), &[], hidden);
    let host = Host::start(HostOptions {
        backends: vec![document.unwrap()],
        any_paths: true,
        ..HostOptions::default()
    });
    let mut host = host.unwrap();
    host.client().await.unwrap();
    let outcome = SanityRun {
        tool,
        endpoint: host.socket(),
        controller_endpoint: None,
        directory: &host.paths(),
        access_type: "mount",
        parameters: &[("server", "127.0.0.1"), ("share", "/share")],
        mutable_parameters: &[],
    }
    .run()
    .unwrap();
    assert_passed(&outcome, offered, not_offered);
    // A clean stop unmounts the pool, or `host` complains.
    assert!(host.terminate().unwrap().success());
    // Nothing is left of its volumes and snapshots.
    let left = std::fs::read_dir(server.share()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".wasmount"]);
}

#[tokio::test]
async fn on_other_kernel_sanity_5_4_passes_against_nfs() {
    sanity(
        CSI_SANITY_5_4,
        &["GET_SNAPSHOT"],
        OFFERED_5_4,
        NOT_OFFERED_5_4,
    )
    .await;
}

#[tokio::test]
async fn on_other_kernel_sanity_5_6_passes_against_nfs() {
    sanity(CSI_SANITY_5_6, &[], OFFERED_5_6, NOT_OFFERED_5_6).await;
}
