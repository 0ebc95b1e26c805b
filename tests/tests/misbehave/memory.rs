//! Memory comes back: after many calls that took all they could, the host is about as large as after the first ones.

use crate::row::{Row, rows};
use crate::scene::{self, Scene};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What takes memory: a guest's own, the host's for it, or both.
const TABLE: &[Row] = rows! {
    "allocate" in Create: ResourceExhausted, Fine;
    "recurse" in Create: Internal, Fine;
    "trap" in Create: Internal, Fine;
    "huge-answer" in Create: ResourceExhausted, Fine;
    "long-error" in Create: Internal, Fine;
    "big-host-call" in Create: ResourceExhausted, Fine;
    "big-context" in Create: Internal, Fine;
    "flood" in Create: Ok, Fine;
    "leak-handles" in Create: ResourceExhausted, Fine;
    "million-keys" in Create: Aborted, Fine;
    "remove-keys" in Create: Ok, Fine;
};

/// Rounds before the first measurement: pools, caches and threads have their size by then.
const WARM: usize = 3;
/// Rounds before the second.
const ROUNDS: usize = 20;
/// How much larger the host may be after them, in KiB. A guest's 48 MiB that stayed once a round would be 960 MiB.
const LARGER_KIB: u64 = 48 << 10;
/// How long it may take until what was freed is given back.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

#[test]
fn privileged_memory_comes_back() {
    scene::run(async {
        let scene = Scene::with("").await;
        rounds(&scene, WARM).await;
        let before = resident(scene.host.id());
        rounds(&scene, ROUNDS).await;
        let start = Instant::now();
        let mut after = resident(scene.host.id());
        while after > before + LARGER_KIB && start.elapsed() < PATIENCE {
            sleep(LOOK);
            after = resident(scene.host.id());
        }
        assert!(
            after <= before + LARGER_KIB,
            "{before} KiB before, {after} KiB after"
        );
        scene.goes_on("all that takes memory").await;
        scene.ends_whole().await;
    });
}

async fn rounds(scene: &Scene, rounds: usize) {
    for _ in 0..rounds {
        for row in TABLE {
            let answer = row.1.with(&scene.driver, row.0).await;
            assert_eq!(
                wasmount_tests::orchestrator::code(&answer),
                row.2,
                "{}: {answer:?}",
                row.0
            );
        }
    }
}

/// What the process holds in memory, in KiB (proc(5), `smaps_rollup`).
fn resident(process: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    line.and_then(|line| line.split_whitespace().next())
        .unwrap()
        .parse()
        .unwrap()
}
