//! csi-sanity, controller and node: a volume that Cinder has attached is a loop device with the name that virtio would give it.

use super::driver::{GIB, Scene};
use wasmount_tests::cinder::AccountOptions;
use wasmount_tests::sanity::{SECRET, SanityRun};
use xtask::tools::CSI_SANITY_5_4;

/// Specs of csi-sanity 5.4.0 for what plugins/cinder exports.
const OFFERED: usize = 75;

/// Those for groups (6), modification (8) and `readonly` of an attachment, which it does not offer, and the one for the limit of a node, which Cinder
/// does not have: Kubernetes' scheduler keeps `nodeVolumeAttachLimit`.
const NOT_OFFERED: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sanity_cinder() {
    let settings = [("nodeVolumeAttachLimit", "0"), ("zone", "zone-a")];
    let scene = Scene::of(0, AccountOptions::default(), &settings).await;
    scene.host.client().await.unwrap();
    let outcome = SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint: scene.host.socket(),
        controller_endpoint: None,
        directory: &scene.host.paths(),
        access_type: "mount",
        parameters: &[],
        mutable_parameters: &[],
    };
    let outcome = outcome.run_with(GIB.cast_unsigned()).unwrap();
    assert!(outcome.failed.is_empty(), "{:#?}", outcome.failed);
    assert_eq!(
        (outcome.passed, outcome.skipped.len()),
        (OFFERED, NOT_OFFERED),
        "skipped: {:#?}",
        outcome.skipped
    );
    assert_eq!(scene.logins(), 1);
    assert_eq!(scene.names("attachments"), [""; 0]);
    assert!(!scene.host.log().contains(SECRET), "a secret was logged");
}
