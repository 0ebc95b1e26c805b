//! A thousand swaps under load. No call may fail, and at the end nothing may be more than after the first swaps.

use crate::footprint::Footprint;
use crate::lives::{AT_ONCE, Lives};
use crate::scene::{DRIVER, Scene, append};
use std::fs;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wasmount_control::words::{Phase, Swap};
use wasmount_tests::builds;

/// Swaps of a test.
const SWAPS: usize = 1000;
/// Swaps before the footprint is taken for the first time: every thread and buffer has been used by then.
const WARM: usize = 100;
/// What resident memory may grow by beyond it, in KiB: allocators keep what concurrent calls needed at their peak, a leaked version would be
/// 100 KiB and a store 64 KiB, each nine hundred times.
const GROWTH: usize = 24 << 10;
/// Versions that a document keeps by default, with their history.
const KEPT: usize = 5;

/// How long the commands took, by the middle one: told, never judged here, since the machine does more than this.
#[expect(
    clippy::print_stdout,
    reason = "it is told to whoever runs the test with --nocapture"
)]
fn tell_median(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let median = took[took.len() / 2];
    println!(
        "p50 of a swap of {what} under {AT_ONCE} lives at once: {median:?}, from the request to the answer on the admin socket"
    );
}

/// Waits until no old version has calls.
async fn drained(scene: &Scene) {
    scene
        .until("old versions have drained", |it| it.draining.is_empty())
        .await;
}

/// Nothing of a version was leaked between these two moments.
fn assert_no_more(before: Footprint, after: Footprint) {
    assert_eq!(
        after.mapped_code, before.mapped_code,
        "{before:?} {after:?}"
    );
    assert_eq!(
        after.version_files, before.version_files,
        "{before:?} {after:?}"
    );
    assert_eq!(
        after.compiled_files, before.compiled_files,
        "{before:?} {after:?}"
    );
    // Each life may have some files open at the moment.
    let of_calls = 2 * AT_ONCE;
    assert!(
        after.descriptors <= before.descriptors + of_calls,
        "{before:?} {after:?}"
    );
    assert!(after.regions <= before.regions + 50, "{before:?} {after:?}");
    assert!(
        after.resident <= before.resident + GROWTH,
        "{before:?} {after:?}"
    );
}

#[tokio::test]
async fn privileged_a_thousand_swaps_of_code_under_load_fail_no_call_and_leak_nothing() {
    let scene = Scene::with("").await;
    let plugins = scene.two_builds();
    let socket = fs::metadata(scene.host.socket()).unwrap();
    let lives = Lives::begin(&scene.host, "pvc").await;
    let mut before = None;
    let mut digests = [const { None }; 2];
    let mut took = Vec::new();
    for round in 0..SWAPS {
        if round == WARM {
            drained(&scene).await;
            before = Some(Footprint::of(&scene.host));
        }
        let which = round % plugins.len();
        let begun = Instant::now();
        let done = scene.swap(&plugins[which]).await;
        took.push(begun.elapsed());
        let version = done.version.unwrap();
        assert!(done.changed, "round {round}: {}", done.said);
        let digest = digests[which].get_or_insert_with(|| version.digest.clone());
        assert_eq!(*digest, version.digest, "round {round}");
    }
    assert_ne!(digests[0], digests[1]);
    tell_median("code", took);
    drained(&scene).await;
    let after = Footprint::of(&scene.host);
    let whole = lives.end().await;
    assert!(whole > SWAPS / 10, "{whole} lives under {SWAPS} swaps");
    assert_no_more(before.unwrap(), after);
    assert!(scene.history().await.versions.len() >= KEPT);
    assert_eq!(scene.status().await.faults, 0);
    same_socket(&scene, &socket);
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_a_thousand_swaps_of_settings_under_load_fail_no_call_and_leak_nothing() {
    let scene = Scene::with("").await;
    let plain = fs::read_to_string(&scene.document).unwrap();
    let texts = ["gold", "silver"].map(|tier| format!("{plain}  settings: {{ tier: {tier} }}\n"));
    let lives = Lives::begin(&scene.host, "pvc").await;
    let mut before = None;
    let mut numbers = Vec::new();
    let mut took = Vec::new();
    for round in 0..SWAPS {
        if round == WARM {
            drained(&scene).await;
            before = Some(Footprint::of(&scene.host));
        }
        builds::put(texts[round % texts.len()].as_bytes(), &scene.document).unwrap();
        let begun = Instant::now();
        let version = scene.swap_to_document().await.version.unwrap();
        took.push(begun.elapsed());
        numbers.push(version.number);
    }
    // Each was put to use, once, in its order.
    numbers.dedup();
    assert_eq!(numbers.len(), SWAPS);
    assert!(numbers.is_sorted());
    tell_median("settings", took);
    drained(&scene).await;
    let after = Footprint::of(&scene.host);
    let whole = lives.end().await;
    assert!(whole > SWAPS / 10, "{whole} lives under {SWAPS} swaps");
    assert_no_more(before.unwrap(), after);
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_two_administrators_who_swap_at_once_are_both_answered_and_one_version_serves() {
    let scene = Scene::with("").await;
    let plugins = scene.two_builds();
    let lives = Lives::begin(&scene.host, "pvc").await;
    for _ in 0..50 {
        let (one, two) = tokio::join!(scene.swap(&plugins[0]), scene.swap(&plugins[1]));
        let served = scene.status().await.version.unwrap();
        let numbers = [one, two].map(|done| done.version.unwrap());
        assert!(
            numbers
                .iter()
                .any(|it| it.number == served.number && it.digest == served.digest),
            "{numbers:?} {served:?}"
        );
    }
    lives.end().await;
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_a_file_that_is_replaced_ten_times_a_second_is_never_loaded_by_halves() {
    let scene = Scene::with("").await;
    let lives = Lives::begin(&scene.host, "pvc").await;
    let mut last = Vec::new();
    for round in 0..100 {
        last = builds::build_of("directory", &format!("build {round}")).unwrap();
        // In turn as a careful administrator does, and as `cp` does.
        if round % 2 == 0 {
            builds::put(&last, &scene.component).unwrap();
        } else {
            builds::put_in_pieces(&last, &scene.component, 20).unwrap();
        }
        sleep(Duration::from_millis(100)).await;
    }
    let digest = digest(&last);
    let what = "the last build serves, and nothing is refused";
    let status = scene
        .until(what, |it| {
            let serves = it.version.as_ref().is_some_and(|it| it.digest == digest);
            serves && it.refused.is_none() && it.phase == Phase::Serving
        })
        .await;
    assert_eq!(status.faults, 0);
    lives.end().await;
    // Half a component would be refused for what it is.
    for refusal in scene.history().await.refusals {
        let halves = ["not_a_component", "compile", "digest"];
        assert!(!halves.contains(&refusal.kind.as_str()), "{refusal:?}");
    }
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_a_broken_component_is_refused_and_the_one_before_serves_on() {
    let scene = Scene::with("").await;
    let before = scene.status().await.version.unwrap();
    let lives = Lives::begin(&scene.host, "pvc").await;
    builds::put(b"\0asm\x01\0\0\0", &scene.component).unwrap();
    let refused = scene
        .until("it is refused", |it| it.refused.is_some())
        .await;
    assert_eq!(refused.version.unwrap().number, before.number);
    let refusal = refused.refused.unwrap();
    assert_eq!(refusal.kind, "not_a_component");
    assert!(
        refusal.reason.contains("is a core module"),
        "{}",
        refusal.reason
    );
    let again = scene
        .client
        .swap(DRIVER, &Swap::default())
        .await
        .unwrap_err();
    assert!(again.to_string().contains("is a core module"), "{again}");
    // A document that is none changes nothing either.
    append(&scene.document, "  limitz: {}\n");
    let unread = scene
        .client
        .swap(DRIVER, &Swap::default())
        .await
        .unwrap_err();
    assert!(
        unread.to_string().contains("did you mean `limits`"),
        "{unread}"
    );
    lives.end().await;
    scene.nothing_is_left();
}

/// No client had to connect anew.
fn same_socket(scene: &Scene, before: &fs::Metadata) {
    use std::os::unix::fs::MetadataExt;
    let now = fs::metadata(scene.host.socket()).unwrap();
    assert_eq!((now.dev(), now.ino()), (before.dev(), before.ino()));
}

fn digest(wasm: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(wasm);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
