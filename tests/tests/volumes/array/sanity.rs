//! csi-sanity against an array, on a sound network and on a bad one.

use super::Scene;
use crate::sanity::assert_passed;
use std::collections::BTreeSet;
use std::path::Path;
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::host::Host;
use wasmount_tests::retrying_proxy::RetryingProxy;
use wasmount_tests::sanity::{SECRET, SanityOutcome, SanityRun};
use xtask::tools::CSI_SANITY_5_4;

/// Specs of csi-sanity 5.4.0 for what plugins/array exports.
pub(super) const OFFERED: usize = 76;

/// Those for groups, modification and single look-ups, which it does not offer.
pub(super) const NOT_OFFERED: usize = 15;

/// One request of so many meets a fault.
const ONE_OF: usize = 12;

pub(super) fn run(host: &Host, endpoint: &Path) -> SanityOutcome {
    SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint,
        controller_endpoint: None,
        directory: &host.paths(),
        access_type: "mount",
        parameters: &[],
        mutable_parameters: &[],
    }
    .run()
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sanity_array() {
    let scene = Scene::of(0, ArrayOptions::default()).await;
    scene.host.client().await.unwrap();
    let outcome = run(&scene.host, scene.host.socket());
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
    let counts = scene.array.counts();
    assert_eq!(counts.logins, 1, "{counts:?}");
    assert!(!scene.host.log().contains(SECRET), "a secret was logged");
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sanity_array_on_a_bad_network() {
    let scene = Scene::of(ONE_OF, ArrayOptions::default()).await;
    scene.host.client().await.unwrap();
    let socket = scene.host.root().join("retrying.sock");
    let client = RetryingProxy::start(scene.host.socket(), &socket);
    let client = client.await.unwrap();
    let outcome = run(&scene.host, client.socket());
    // The seed, if it fails.
    eprintln!("{}", scene.proxy);
    assert_passed(&outcome, OFFERED, NOT_OFFERED);
    let counts = scene.array.counts();
    let names: BTreeSet<_> = counts.volumes.iter().collect();
    assert_eq!(names.len(), counts.volumes.len(), "{counts:?}");
    assert!(scene.proxy.done().len() > 5, "{}", scene.proxy);
    scene.end();
}
