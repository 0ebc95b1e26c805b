//! A thousand swaps under load. No call may fail, and at the end nothing may be more than after the first swaps.

use crate::swaps::footprint::Footprint;
use crate::swaps::lives::{AT_ONCE, Lives};
use crate::swaps::scene::Scene;
use std::fs;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wasmount_tests::builds;
use wasmount_tests::rounds::rounds;

/// Swaps of a thorough run.
const SWAPS: usize = 1000;
/// Swaps before the footprint is taken for the first time, as a part of all: every thread and buffer has been used by then.
const WARM: usize = 10;
/// Windows of swaps before growth in each of them is a leak.
const MOST_WINDOWS: usize = 6;
/// Memory regions that a leaked version would add: its compiled code has at least one.
const LEAKED_REGIONS: usize = 1;
/// Resident memory that a leaked version would add, in KiB: a store takes 64 KiB, the code of a version 100 KiB.
const LEAKED_KIB: usize = 64;
/// Versions that a document keeps by default, with their history.
const KEPT: usize = 5;

/// How long the commands took, by the middle one: told, never judged here, since the machine does more than this.
#[expect(
    clippy::print_stdout,
    reason = "it is printed when the test runs with --nocapture"
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
        .until("old versions have drained", |it| {
            it.status.draining.is_empty()
        })
        .await;
}

/// The footprints of a host: before a first window of swaps, and after that and each further window of the same length.
struct Windows {
    warm: usize,
    length: usize,
    footprints: Vec<Footprint>,
}

impl Windows {
    /// Two windows within so many swaps.
    fn of(swaps: usize) -> Self {
        let warm = swaps / WARM;
        Self {
            warm,
            length: (swaps - warm) / 2,
            footprints: Vec::new(),
        }
    }

    /// Whether more swaps are needed after so many, with the footprint taken if a window ends here. A leak grows in every window. What allocators and
    /// pools keep after a peak does not, but on a busy machine a peak may come in each of the first ones.
    async fn need_more(&mut self, scene: &Scene, done: usize) -> bool {
        if done
            .checked_sub(self.warm)
            .is_none_or(|done| done % self.length != 0)
        {
            return true;
        }
        drained(scene).await;
        self.footprints.push(Footprint::of(&scene.host));
        match self.footprints.len() {
            ..3 => true,
            3..=MOST_WINDOWS => self.grew_in_each().is_some(),
            _ => false,
        }
    }

    /// What grew in each window by as much as leaked versions would add.
    fn grew_in_each(&self) -> Option<&'static str> {
        let grew = |of: fn(&Footprint) -> usize, leaked: usize| {
            // Half, since a look may come before some memory was given back.
            let least = self.length * leaked / 2;
            let mut windows = self.footprints.array_windows();
            windows.all(|[before, after]| of(after) >= of(before) + least)
        };
        if grew(|it| it.regions, LEAKED_REGIONS) {
            Some("memory regions")
        } else if grew(|it| it.resident, LEAKED_KIB) {
            Some("resident memory")
        } else {
            None
        }
    }

    /// Nothing of a version was leaked.
    fn assert_no_leak(&self) {
        let all = &self.footprints;
        let [first, later @ .., last] = all.as_slice() else {
            panic!("{} footprints", all.len());
        };
        for later in later.iter().chain([last]) {
            assert_eq!(later.mapped_code, first.mapped_code, "{all:?}");
            assert_eq!(later.version_files, first.version_files, "{all:?}");
            assert_eq!(later.compiled_files, first.compiled_files, "{all:?}");
        }
        // Each life may have some files open at the moment.
        let of_calls = 2 * AT_ONCE;
        assert!(last.descriptors <= first.descriptors + of_calls, "{all:?}");
        assert_eq!(self.grew_in_each(), None, "{all:?}");
    }
}

/// Waits until lives have been whole beside the swaps: one in ten swaps at least.
async fn in_step(lives: &mut Lives, swaps: usize) {
    while lives.whole() < swaps / 10 {
        lives.assert_none_failed();
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn privileged_swaps_of_code_under_load_leak_nothing() {
    let scene = Scene::with("").await;
    let plugins = scene.two_builds();
    let socket = fs::metadata(scene.host.socket()).unwrap();
    let mut lives = Lives::begin(&scene.host, "pvc").await;
    let mut windows = Windows::of(rounds(SWAPS));
    let mut digests = [const { None }; 2];
    let mut took = Vec::new();
    while windows.need_more(&scene, took.len()).await {
        let round = took.len();
        in_step(&mut lives, round).await;
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
    lives.end().await;
    windows.assert_no_leak();
    assert!(scene.history().await.versions.len() >= KEPT);
    assert_eq!(scene.status().await.faults, 0);
    same_socket(&scene, &socket);
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_swaps_of_settings_under_load_leak_nothing() {
    let scene = Scene::with("").await;
    let plain = fs::read_to_string(&scene.document).unwrap();
    let texts = ["gold", "silver"].map(|tier| format!("{plain}  settings: {{ tier: {tier} }}\n"));
    let mut lives = Lives::begin(&scene.host, "pvc").await;
    let mut windows = Windows::of(rounds(SWAPS));
    let mut numbers = Vec::new();
    let mut took = Vec::new();
    while windows.need_more(&scene, took.len()).await {
        let round = took.len();
        in_step(&mut lives, round).await;
        builds::put(texts[round % texts.len()].as_bytes(), &scene.document).unwrap();
        let begun = Instant::now();
        let version = scene.swap_to_document().await.version.unwrap();
        took.push(begun.elapsed());
        numbers.push(version.number);
    }
    // Each was put to use, once, in its order.
    numbers.dedup();
    assert_eq!(numbers.len(), took.len());
    assert!(numbers.is_sorted());
    tell_median("settings", took);
    lives.end().await;
    windows.assert_no_leak();
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_concurrent_swaps_leave_one_serving_version() {
    let scene = Scene::with("").await;
    let plugins = scene.two_builds();
    let lives = Lives::begin(&scene.host, "pvc").await;
    for _ in 0..50 {
        let (one, two) = tokio::join!(scene.swap(&plugins[0]), scene.swap(&plugins[1]));
        let served = scene.status().await.status.version.unwrap();
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

/// No client had to connect anew.
fn same_socket(scene: &Scene, before: &fs::Metadata) {
    use std::os::unix::fs::MetadataExt;
    let now = fs::metadata(scene.host.socket()).unwrap();
    assert_eq!((now.dev(), now.ino()), (before.dev(), before.ino()));
}
