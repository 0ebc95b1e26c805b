//! A hundred calls at once that misbehave in all ways, beside a driver that works: each ends with its own failure.

use crate::misbehave::row::{Row, Told, rows};
use crate::misbehave::scene::{self, Scene};
use futures::future::join_all;
use tonic::Code;
use wasmount_tests::orchestrator::code;

/// Calls at once: as many as an external provisioner has workers.
const AT_ONCE: usize = 100;

/// Of every kind; none needs a volume of its own.
const TABLE: &[Row] = rows! {
    "spin" in Capacity: ResourceExhausted, Fault("limits.cpu");
    "sleep" in Get: DeadlineExceeded, Fault("within 5 s");
    "allocate" in GetSnapshot: ResourceExhausted, Fault("limits.memory");
    "recurse" in Capacity: Internal, Fault("call stack exhausted");
    "trap" in Validate: Internal, Fault("as asked");
    "flood" in Capacity: Ok, Fine;
    "leak-handles" in GetSnapshot: ResourceExhausted, Fault("limits.handles");
    "big-host-call" in Validate: ResourceExhausted, Fault("limits.hostCallBytes");
    "empty-id" in Get: Internal, Fault("volume_id is empty");
    "secret-in-error" in Validate: Unauthenticated, Words("[redacted]");
    "pages-without-end" in Allocated: Internal, Fault("next_offset");
    "step-outside" in Get: Internal, Fault("is refused");
    "million-keys-at-any-price" in Validate: ResourceExhausted, Fault("limits.cpu");
};

#[test]
fn privileged_a_hundred_misbehaving_calls_disturb_no_other() {
    scene::run(async {
        let scene = Scene::with("").await;
        let rows = TABLE.iter().cycle().take(AT_ONCE);
        let driver = &scene.driver;
        let calls = rows.map(|row| async move {
            let answer = row.1.with(driver, row.0).await;
            let expected = code(&answer) == row.2 && row.3.holds(&answer, driver);
            // What there was no place for in time says so, and what waited for its turn of the CPU may be out of time instead.
            let busy = code(&answer) == Code::Unavailable
                && Told::Words("the backend is busy: 16 calls are running").holds(&answer, driver);
            let late = code(&answer) == Code::DeadlineExceeded
                && Told::Fault("within 5 s").holds(&answer, driver);
            (expected || busy || late)
                .then_some(expected)
                .ok_or((row, answer))
        });
        let outcomes = join_all(calls).await;
        let wrong: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| outcome.as_ref().err())
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        let as_expected = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Ok(true)))
            .count();
        assert!(as_expected >= TABLE.len(), "{as_expected} of {AT_ONCE}");
        scene.goes_on("a hundred calls").await;
        scene.ends_whole().await;
    });
}
