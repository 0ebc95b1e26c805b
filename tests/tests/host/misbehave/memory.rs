//! Memory comes back: after many calls that took all they could, the host is about as large as after the first ones.

use crate::misbehave::call::Call;
use crate::misbehave::row::{Row, rows};
use crate::misbehave::scene::{self, Scene};
use futures::future::join_all;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tonic::Code;
use wasmount_tests::orchestrator::code;

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
/// Calls at once: `limits.concurrency` of the scene.
const AT_ONCE: usize = 16;
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

/// As many calls as the backend may have (16), each with 40 of the 48 MiB that it may have, if it can get them, until its time is over.
#[test]
fn privileged_calls_at_once_take_no_more_than_their_backend_may() {
    const SHARES_KIB: u64 = 8 * (48 << 10);
    scene::run(async {
        let scene = Scene::with("").await;
        rounds(&scene, 1).await;
        let process = scene.host.id();
        let before = resident(process);
        // From now on the peak is of what comes (proc(5), `clear_refs`).
        fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
        let calls = (0..AT_ONCE).map(|_| Call::GetSnapshot.with(&scene.driver, "hold-memory"));
        let answers = join_all(calls).await;
        let peak = kib(&format!("/proc/{process}/status"), "VmHWM:");
        let most = before + SHARES_KIB + LARGER_KIB;
        assert!(peak <= most, "{before} KiB before, {peak} KiB at most");
        let of = |expected| {
            answers
                .iter()
                .filter(|answer| code(answer) == expected)
                .count()
        };
        let (held, refused) = (of(Code::DeadlineExceeded), of(Code::Unavailable));
        assert!(held > 0 && held <= 8, "{answers:?}");
        assert_eq!(held + refused, AT_ONCE, "{answers:?}");
        scene.goes_on("calls that take all memory").await;
        scene.ends_whole().await;
    });
}

async fn rounds(scene: &Scene, rounds: usize) {
    for _ in 0..rounds {
        for row in TABLE {
            let answer = row.1.with(&scene.driver, row.0).await;
            assert_eq!(code(&answer), row.2, "{}: {answer:?}", row.0);
        }
    }
}

/// What the process holds in memory, in KiB (proc(5), `smaps_rollup`).
fn resident(process: u32) -> u64 {
    kib(&format!("/proc/{process}/smaps_rollup"), "Rss:")
}

fn kib(path: &str, name: &str) -> u64 {
    let content = fs::read_to_string(path).unwrap();
    let line = content.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next())
        .unwrap()
        .parse()
        .unwrap()
}
