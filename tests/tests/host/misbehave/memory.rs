//! Memory is given back: many calls that take all they may do not make the host larger.

use crate::misbehave::call::Call;
use crate::misbehave::row::{Row, rows};
use crate::misbehave::scene::{self, Scene};
use futures::future::join_all;
use std::fs;
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
const WARM_UP_ROUNDS: usize = 3;
/// Windows that are compared. What pools, caches and allocators keep after a peak grows in the first ones, a leak grows in each.
const WINDOWS: usize = 3;
/// Rounds of a window.
const ROUNDS: usize = 8;
/// What a leak adds a round, in KiB: a small part of the memory of one guest.
const LEAK_KIB: u64 = 2 << 10;
/// Limits of a host whose memory is measured: more time than a busy machine takes for a call, since time is not what ends a call here.
const LIMITS: &str = "  limits: { time: 30s, cpu: 2s, memory: 48Mi, handles: 100, stateBytes: 256Ki, concurrency: 16 }\n";
/// How much larger the host may be than the sum of its parts, in KiB.
const LARGER_KIB: u64 = 48 << 10;
/// Calls at once: `limits.concurrency` of the scene.
const AT_ONCE: usize = 16;

#[test]
fn privileged_memory_does_not_grow_over_windows_of_calls() {
    scene::run(async {
        let scene = Scene::with(LIMITS).await;
        rounds(&scene, WARM_UP_ROUNDS).await;
        let mut sizes = vec![resident(scene.host.id())];
        for _ in 0..WINDOWS {
            rounds(&scene, ROUNDS).await;
            sizes.push(resident(scene.host.id()));
        }
        let leak = LEAK_KIB * u64::try_from(ROUNDS).unwrap();
        let steady = sizes.windows(2).any(|pair| pair[1] < pair[0] + leak);
        assert!(steady, "KiB after each window: {sizes:?}");
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
