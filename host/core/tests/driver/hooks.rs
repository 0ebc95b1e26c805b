//! `before-unstage`: called for every unstage, and never able to block one.

use crate::common::*;
use crate::script::{Act, answered, trapped};
use std::time::Duration;
use wasmount_core::code::Code;
use wasmount_core::error::Error;
use wasmount_core::services::Service;

async fn unstage(bench: &Bench) -> Result<(), Error> {
    let driver = &bench.driver;
    driver
        .node_unstage_volume(incoming(), volume_id("v"), path("/staging"))
        .await
}

#[tokio::test]
async fn the_hook_hears_the_notes_before_the_volume_is_unstaged() {
    let bench = full(&[]);
    let note = ("note".to_owned(), "kept".to_owned());
    bench.mounter.notes.lock().unwrap().extend([note]);
    unstage(&bench).await.unwrap();
    assert_eq!(bench.backend.script.calls(), ["before_unstage v kept"]);
    assert_eq!(bench.mounter.script.calls(), ["notes v", "unstage v"]);
}

#[tokio::test]
async fn a_backend_without_the_interface_is_not_asked() {
    let bench = bench(&[Service::NodeStage], &[]);
    unstage(&bench).await.unwrap();
    assert_eq!(bench.backend.script.count("before_unstage"), 0);
    assert_eq!(bench.mounter.script.calls(), ["unstage v"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_says_no_is_asked_three_times() {
    let bench = full(&[]);
    let no = answered(Code::FailedPrecondition);
    bench.backend.script.on("before_unstage", Act::Fail(no));
    for _ in 0..2 {
        let refused = unstage(&bench).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert_eq!(bench.mounter.script.count("unstage"), 0);
    }
    unstage(&bench).await.unwrap();
    assert_eq!(bench.backend.script.count("before_unstage"), 3);
    assert_eq!(bench.mounter.script.count("unstage"), 1);
    // After another stage and unstage the hook is called again.
    assert!(unstage(&bench).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_says_no_is_not_asked_after_thirty_seconds() {
    let bench = full(&[]);
    let no = answered(Code::Unavailable);
    bench.backend.script.on("before_unstage", Act::Fail(no));
    assert!(unstage(&bench).await.is_err());
    tokio::time::sleep(Duration::from_secs(30)).await;
    unstage(&bench).await.unwrap();
    assert_eq!(bench.backend.script.count("before_unstage"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_is_left_after_thirty_seconds() {
    let bench = full(&[]);
    bench.backend.script.on("before_unstage", Act::Hang);
    let begun = tokio::time::Instant::now();
    unstage(&bench).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert_eq!(bench.mounter.script.count("unstage"), 1);
}

#[tokio::test]
async fn a_hook_that_traps_is_not_asked_again() {
    let bench = full(&[]);
    bench
        .backend
        .script
        .on("before_unstage", Act::Fail(trapped()));
    unstage(&bench).await.unwrap();
    assert_eq!(bench.backend.script.count("before_unstage"), 1);
    assert_eq!(bench.mounter.script.count("unstage"), 1);
}

#[tokio::test]
async fn notes_that_cannot_be_read_do_not_stop_the_hook() {
    let bench = full(&[]);
    bench.mounter.script.on("notes", Act::Fail(trapped()));
    unstage(&bench).await.unwrap();
    assert_eq!(bench.backend.script.calls(), ["before_unstage v"]);
    assert_eq!(bench.mounter.script.count("unstage"), 1);
}
