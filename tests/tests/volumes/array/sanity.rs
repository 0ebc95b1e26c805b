//! csi-sanity against an array, on a sound network and on a bad one.

use super::Scene;
use std::collections::BTreeSet;
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::sanity::{MISSED_CONNECTION, SECRET, SanityOutcome, SanityRun};
use xtask::tools::CSI_SANITY_5_4;

/// Specs of csi-sanity 5.4.0 for what plugins/array exports.
const OFFERED: usize = 74;

/// Those for clones, groups, modification and single look-ups, which it does not offer.
const NOT_OFFERED: usize = 17;

/// One request of so many meets a fault.
const ONE_OF: usize = 12;

/// What a client retries: the suite does not, so a spec may end with one of these where a request was lost. The last one is the suite's own: it waits
/// for a change of a connection that is ready already.
const RETRIED: [&str; 4] = [
    "Unavailable",
    "Aborted",
    "DeadlineExceeded",
    MISSED_CONNECTION,
];

async fn run(scene: &Scene) -> SanityOutcome {
    scene.host.client().await.unwrap();
    SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint: scene.host.socket(),
        controller_endpoint: None,
        directory: &scene.host.paths(),
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
    let outcome = run(&scene).await;
    assert!(outcome.failed.is_empty(), "{:#?}", outcome.failed);
    assert_eq!(
        (outcome.passed, outcome.skipped.len()),
        (OFFERED, NOT_OFFERED),
        "skipped: {:#?}",
        outcome.skipped
    );
    let counts = scene.array.counts();
    assert_eq!(counts.logins, 1, "{counts:?}");
    assert!(!scene.host.log().contains(SECRET), "a secret was logged");
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sanity_array_on_a_bad_network() {
    let scene = Scene::of(ONE_OF, ArrayOptions::default()).await;
    let outcome = run(&scene).await;
    for failed in &outcome.failed {
        let is_retried = RETRIED.iter().any(|code| failed.contains(code));
        assert!(is_retried, "{failed}\n{}", scene.proxy);
    }
    let counts = scene.array.counts();
    let names: BTreeSet<_> = counts.volumes.iter().collect();
    assert_eq!(names.len(), counts.volumes.len(), "{counts:?}");
    assert!(scene.proxy.done().len() > 5, "{}", scene.proxy);
    scene.end();
}
