//! Which calls run concurrently, and which outlive their client.

use crate::common::*;
use crate::script::{Act, PATIENCE};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wasmount_core::backend::BackendError;
use wasmount_core::code::Code;
use wasmount_core::error::Error;
use wasmount_core::services::{Feature, Service};
use wasmount_core::volume::ContentSource;

/// Calls at a time.
const AT_ONCE: usize = 8;

fn in_flight<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::InFlight { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_eight_stages_of_a_volume_one_runs_and_others_retry() {
    let bench = full(&[]);
    let gate = bench.backend.script.hold("node_stage");
    let mut calls = JoinSet::new();
    for _ in 0..AT_ONCE {
        let driver = bench.driver.clone();
        calls.spawn(async move { driver.node_stage_volume(incoming(), stage("v")).await });
    }
    for _ in 1..AT_ONCE {
        let answer = calls.join_next().await.unwrap().unwrap();
        assert_eq!(answer.unwrap_err().code(), Code::Aborted);
    }
    gate.add_permits(1);
    calls.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(bench.backend.script.count("node_stage"), 1);
    assert_eq!(bench.mounter.script.count("stage"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_different_volumes_are_staged_at_once() {
    let bench = full(&[]);
    let gate = bench.backend.script.hold("node_stage");
    let mut calls = JoinSet::new();
    for n in 0..AT_ONCE {
        let driver = bench.driver.clone();
        let request = stage(&format!("v{n}"));
        calls.spawn(async move { driver.node_stage_volume(incoming(), request).await });
    }
    bench.backend.script.arrived("node_stage", AT_ONCE).await;
    gate.add_permits(AT_ONCE);
    while let Some(answer) = calls.join_next().await {
        answer.unwrap().unwrap();
    }
    assert_eq!(bench.mounter.script.count("stage"), AT_ONCE);
}

#[tokio::test]
async fn an_abandoned_call_completes_and_its_retry_finds_it() {
    let bench = full(&[]);
    let gate = bench.backend.script.hold("create_volume");
    let driver = bench.driver.clone();
    let client = tokio::spawn(async move { driver.create_volume(incoming(), create("x")).await });
    bench.backend.script.arrived("create_volume", 1).await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());

    let early = bench.driver.create_volume(incoming(), create("x")).await;
    assert!(in_flight(&early), "the claims outlive the client");
    gate.add_permits(1);
    let volume = retried(|| bench.driver.create_volume(incoming(), create("x"))).await;
    assert_eq!(volume.id, volume_id("id-of-x"));
    assert_eq!(bench.backend.script.count("create_volume"), 1);
}

/// A deletion of `id-of-x` that has failed, and whose job ends when it gets a permit.
async fn late_deletion(bench: &Bench) -> Arc<Semaphore> {
    let gate = Arc::new(Semaphore::new(0));
    let script = &bench.backend.script;
    script.on("delete_volume", Act::LeaveJob(gate.clone()));
    let deleted = bench.driver.delete_volume(incoming(), volume_id("id-of-x"));
    assert_eq!(deleted.await.unwrap_err().code(), Code::DeadlineExceeded);
    script.off("delete_volume");
    gate
}

#[tokio::test]
async fn claims_of_a_failed_call_hold_until_its_last_job_ends() {
    let bench = full(&[]);
    let driver = &bench.driver;
    let gate = late_deletion(&bench).await;

    // The volume can be neither deleted, created nor staged while the first deletion continues.
    assert!(in_flight(
        &driver.delete_volume(incoming(), volume_id("id-of-x")).await
    ));
    assert!(in_flight(
        &driver.create_volume(incoming(), create("x")).await
    ));
    assert!(in_flight(
        &driver.node_stage_volume(incoming(), stage("id-of-x")).await
    ));
    assert_eq!(driver.shutdown(Duration::ZERO).await, 1);
    gate.add_permits(1);
    driver.shutdown(PATIENCE).await;
}

#[tokio::test]
async fn a_volume_is_made_anew_once_its_late_deletion_has_ended() {
    let bench = full(&[]);
    let driver = &bench.driver;
    let gate = late_deletion(&bench).await;
    gate.add_permits(1);
    retried(|| driver.create_volume(incoming(), create("x"))).await;
    driver
        .node_stage_volume(incoming(), stage("id-of-x"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_read_without_its_client_is_cancelled() {
    let bench = full(&[]);
    let script = &bench.backend.script;
    script.on("list_volumes", Act::UntilCancelled);
    let driver = bench.driver.clone();
    let client =
        tokio::spawn(async move { driver.list_volumes(incoming(), Default::default()).await });
    script.arrived("list_volumes", 1).await;
    client.abort();
    script.arrived("stopped", 1).await;
}

#[tokio::test]
async fn a_staged_volume_is_not_deleted_while_statistics_are_read() {
    let bench = full(&[]);
    let gate = bench.backend.script.hold("node_stage");
    let driver = bench.driver.clone();
    let staging =
        tokio::spawn(async move { driver.node_stage_volume(incoming(), stage("v")).await });
    bench.backend.script.arrived("node_stage", 1).await;
    let delete = bench.driver.delete_volume(incoming(), volume_id("v")).await;
    assert!(in_flight(&delete));
    let read = bench.driver.node_get_volume_stats(incoming(), stats("v"));
    assert!(read.await.is_ok());
    gate.add_permits(1);
    staging.await.unwrap().unwrap();
    let delete = bench.driver.delete_volume(incoming(), volume_id("v"));
    delete.await.unwrap();
}

#[tokio::test]
async fn a_volume_is_published_to_two_targets_at_once() {
    let bench = full(&[]);
    let gate = bench.mounter.script.hold("publish");
    let mut calls = JoinSet::new();
    for target in ["/a", "/b"] {
        let driver = bench.driver.clone();
        let request = publish("v", target);
        calls.spawn(async move { driver.node_publish_volume(incoming(), request).await });
    }
    bench.mounter.script.arrived("publish", 2).await;
    let third = bench
        .driver
        .node_publish_volume(incoming(), publish("other", "/a"));
    assert!(in_flight(&third.await));
    let unstage = bench
        .driver
        .node_unstage_volume(incoming(), volume_id("v"), path("/staging"));
    assert!(in_flight(&unstage.await));
    gate.add_permits(2);
    while let Some(answer) = calls.join_next().await {
        answer.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_clone_keeps_its_source_and_claims_its_new_id_first() {
    let bench = full(&[Feature::CloneVolume]);
    let gate = bench.backend.script.hold("create_volume");
    let driver = bench.driver.clone();
    let args = create_from("x", ContentSource::Volume(volume_id("source")));
    let cloning = tokio::spawn(async move { driver.create_volume(incoming(), args).await });
    bench.backend.script.arrived("create_volume", 1).await;
    let delete = bench.driver.delete_volume(incoming(), volume_id("source"));
    assert!(in_flight(&delete.await));

    let deleting = bench.backend.script.hold("delete_volume");
    let driver = bench.driver.clone();
    let old = tokio::spawn(async move {
        let id = volume_id("id-of-x");
        driver.delete_volume(incoming(), id).await
    });
    bench.backend.script.arrived("delete_volume", 1).await;
    gate.add_permits(1);
    assert!(in_flight(&cloning.await.unwrap()));
    deleting.add_permits(1);
    old.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_panics_is_lost_and_gives_its_claims_back() {
    let bench = full(&[]);
    bench.backend.script.on("node_stage", Act::Panic);
    let lost = bench.driver.node_stage_volume(incoming(), stage("v")).await;
    assert!(matches!(lost, Err(Error::Lost { .. })));
    bench.backend.script.off("node_stage");
    let retry = bench.driver.node_stage_volume(incoming(), stage("v"));
    retry.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_when_its_budget_is_spent() {
    let bench = bench(&[Service::Controller], &[]);
    bench
        .backend
        .script
        .on("create_volume", Act::UntilCancelled);
    let begun = tokio::time::Instant::now();
    let answer = bench.driver.create_volume(incoming(), create("x")).await;
    assert_eq!(begun.elapsed().as_secs(), BUDGET.as_secs());
    assert!(matches!(
        answer,
        Err(Error::Backend(BackendError::OutOfTime { seconds: 60, .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn claims_are_held_past_the_budget_until_the_work_has_ended() {
    let bench = bench(&[Service::Controller], &[]);
    let gate = bench.backend.script.hold("create_volume");
    let driver = bench.driver.clone();
    let late = tokio::spawn(async move { driver.create_volume(incoming(), create("x")).await });
    bench.backend.script.arrived("create_volume", 1).await;
    tokio::time::sleep(BUDGET * 2).await;
    let retry = bench.driver.create_volume(incoming(), create("x")).await;
    assert!(in_flight(&retry));
    gate.add_permits(1);
    assert!(late.await.unwrap().is_ok());
}
