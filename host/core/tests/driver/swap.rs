//! Swaps while calls run: which version a call uses, which calls wait, and what is dropped with the old version.

use crate::backend::FakeBackend;
use crate::common::*;
use crate::script::{Act, trapped};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wasmount_core::code::Code;
use wasmount_core::driver::{Driver, Role, RunningCalls, ServingPolicy};
use wasmount_core::error::Error;
use wasmount_core::fault::FaultKind;
use wasmount_core::rpc::Rpc;
use wasmount_core::services::{Service, ServiceSet};

/// Calls at a time.
const AT_ONCE: usize = 8;
const SWAPS: usize = 1000;
/// Far longer than any step of these tests takes.
const SOON: Duration = Duration::from_secs(10);

fn offering(services: &[Service]) -> Arc<FakeBackend> {
    Arc::new(FakeBackend::new(ServiceSet::new(
        services.iter().copied(),
        [],
    )))
}

fn whole() -> Arc<FakeBackend> {
    offering(Service::ALL)
}

fn swapped(bench: &Bench, backend: &Arc<FakeBackend>) -> RunningCalls {
    let retired = bench.driver.activate(backend.clone(), bench.policy.clone());
    retired.unwrap()
}

/// A call that runs in the version of `bench` and does not end.
async fn begun(bench: &Bench) -> (JoinSet<Result<(), Error>>, Arc<tokio::sync::Semaphore>) {
    let gate = bench.backend.script.hold("delete_volume");
    let driver = bench.driver.clone();
    let mut calls = JoinSet::new();
    calls.spawn(async move { driver.delete_volume(incoming(), volume_id("old")).await });
    bench.backend.script.arrived("delete_volume", 1).await;
    (calls, gate)
}

async fn deleted(driver: &Arc<Driver>, id: &str) -> Result<(), Error> {
    driver.delete_volume(incoming(), volume_id(id)).await
}

#[tokio::test]
async fn a_call_ends_on_the_version_that_it_began_with() {
    let bench = full(&[]);
    let (mut calls, gate) = begun(&bench).await;
    let new = whole();
    let retired = swapped(&bench, &new);
    assert_eq!(retired.count(), 1);
    deleted(&bench.driver, "new").await.unwrap();
    assert_eq!(new.script.calls(), ["delete_volume new"]);
    assert_eq!(bench.driver.calls_in_flight(), 1);
    gate.add_permits(1);
    calls.join_next().await.unwrap().unwrap().unwrap();
    timeout(SOON, retired.ended()).await.unwrap();
    assert_eq!(bench.backend.script.count("delete_volume"), 1);
    assert_eq!(bench.driver.calls_in_flight(), 0);
}

#[tokio::test]
async fn a_version_is_gone_with_its_last_call() {
    let mut bench = full(&[]);
    let (mut calls, gate) = begun(&bench).await;
    let old = Arc::downgrade(&bench.backend);
    let new = whole();
    let retired = swapped(&bench, &new);
    bench.backend = new;
    assert!(old.upgrade().is_some());
    gate.add_permits(1);
    calls.join_next().await.unwrap().unwrap().unwrap();
    timeout(SOON, retired.ended()).await.unwrap();
    // The task of the call drops it right after it has answered.
    timeout(SOON, async {
        while old.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_versions_follow_one_another() {
    let bench = full(&[]);
    let stop = Arc::new(AtomicBool::new(false));
    let mut calls = JoinSet::new();
    for worker in 0..AT_ONCE {
        let (driver, stop) = (bench.driver.clone(), stop.clone());
        calls.spawn(async move {
            let mut ended = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                deleted(&driver, &format!("v{worker}")).await.unwrap();
                ended += 1;
                tokio::task::yield_now().await;
            }
            ended
        });
    }
    let mut versions = Vec::new();
    for number in 0..SWAPS {
        let new = whole();
        versions.push(Arc::downgrade(&new));
        let retired = swapped(&bench, &new);
        if number % 10 == 0 {
            timeout(SOON, retired.ended()).await.unwrap();
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = calls.join_next().await {
        assert!(ended.unwrap() > 0);
    }
    bench.driver.idle().await;
    let left = versions.iter().filter(|it| it.upgrade().is_some()).count();
    assert_eq!(left, 1, "only the version in use is left");
}

#[tokio::test]
async fn terms_come_and_go_with_a_version() {
    let bench = full(&[]);
    let hides = policy(&["CREATE_DELETE_VOLUME"]);
    bench.driver.activate(whole(), hides);
    let refused = deleted(&bench.driver, "v").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    bench.driver.activate(whole(), policy(&[]));
    deleted(&bench.driver, "v").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_has_the_time_of_the_version_that_it_began_with() {
    let bench = full(&[]);
    let short = ServingPolicy {
        time_budget: Duration::from_secs(3),
        ..policy(&[])
    };
    let backend = whole();
    backend.script.on("delete_volume", Act::UntilCancelled);
    bench.driver.activate(backend, short);
    let began = tokio::time::Instant::now();
    let late = deleted(&bench.driver, "v").await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded);
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn held_calls_begin_on_the_version_activated_meanwhile() {
    let bench = full(&[]);
    let (mut running, gate) = begun(&bench).await;
    let held = bench.driver.hold();
    let driver = bench.driver.clone();
    let waiting = tokio::spawn(async move { deleted(&driver, "held").await });
    let drained = timeout(Duration::from_millis(50), bench.driver.idle()).await;
    assert!(drained.is_err(), "a call still asks the plugin");
    gate.add_permits(1);
    running.join_next().await.unwrap().unwrap().unwrap();
    timeout(SOON, bench.driver.idle()).await.unwrap();
    assert!(!waiting.is_finished());
    let new = whole();
    swapped(&bench, &new);
    drop(held);
    waiting.await.unwrap().unwrap();
    assert_eq!(new.script.calls(), ["delete_volume held"]);
    assert_eq!(bench.backend.script.count("delete_volume"), 1);
}

#[tokio::test]
async fn what_kernel_and_journal_answer_does_not_wait() {
    let bench = bench(&[Service::Controller, Service::NodeStage], &[]);
    let _held = bench.driver.hold();
    let unpublished = bench
        .driver
        .node_unpublish_volume(incoming(), volume_id("v"), path("/t"));
    timeout(SOON, unpublished).await.unwrap().unwrap();
    let unstaged = bench
        .driver
        .node_unstage_volume(incoming(), volume_id("v"), path("/staging"));
    timeout(SOON, unstaged).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_own_time_at_most() {
    let bench = full(&[]);
    let _held = bench.driver.hold();
    let began = tokio::time::Instant::now();
    let refused = deleted(&bench.driver, "v").await.unwrap_err();
    assert!(matches!(refused, Error::Quiesced), "{refused}");
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(began.elapsed(), BUDGET);
    assert_eq!(bench.backend.script.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_thousand_calls_wait() {
    let bench = full(&[]);
    let held = bench.driver.hold();
    let mut waiting = JoinSet::new();
    for number in 0..1100 {
        let driver = bench.driver.clone();
        waiting.spawn(async move { deleted(&driver, &format!("v{number}")).await });
    }
    for _ in 0..1100 - 1024 {
        let refused = waiting.join_next().await.unwrap().unwrap();
        assert!(matches!(refused, Err(Error::Quiesced)));
    }
    drop(held);
    while let Some(answer) = waiting.join_next().await {
        answer.unwrap().unwrap();
    }
    deleted(&bench.driver, "after").await.unwrap();
}

#[tokio::test]
async fn two_who_hold_are_both_waited_for() {
    let bench = full(&[]);
    let (one, other) = (bench.driver.hold(), bench.driver.hold());
    drop(one);
    let driver = bench.driver.clone();
    let waiting = tokio::spawn(async move { deleted(&driver, "v").await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    drop(other);
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_backend_that_takes_no_new_work_ends_what_there_is() {
    let bench = full(&[]);
    let driver = &bench.driver;
    driver.set_drained(Some("its storage is being replaced".to_owned()));
    let refused = driver.create_volume(incoming(), create("x")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert_eq!(
        refused.to_string(),
        "no new work is taken: its storage is being replaced"
    );
    let staged = driver.node_stage_volume(incoming(), stage("v")).await;
    let published = driver
        .node_publish_volume(incoming(), publish("v", "/t"))
        .await;
    let taken = driver
        .create_snapshot(incoming(), create_snapshot("s", "v"))
        .await;
    for refused in [staged.err(), published.err(), taken.err()] {
        assert!(matches!(refused, Some(Error::NoNewWork { .. })));
    }
    deleted(driver, "v").await.unwrap();
    let target = path("/t");
    let unpublished = driver.node_unpublish_volume(incoming(), volume_id("v"), target);
    unpublished.await.unwrap();
    driver
        .node_get_volume_stats(incoming(), stats("v"))
        .await
        .unwrap();
    driver.set_drained(None);
    driver.create_volume(incoming(), create("x")).await.unwrap();
}

#[tokio::test]
async fn a_leaving_backend_takes_no_new_work_and_a_drain_outlasts_it() {
    let bench = full(&[]);
    let driver = &bench.driver;
    let refused = async |name: &str| {
        let created = driver.create_volume(incoming(), create(name)).await;
        created.err().map(|error| error.to_string())
    };
    let leaving = Some("no new work is taken: the backend is being deleted".to_owned());
    let (one, other) = (driver.leave(), driver.leave());
    assert_eq!(refused("x").await, leaving);
    drop(one);
    assert_eq!(refused("x").await, leaving);
    // Settings that are made meanwhile apply afterwards.
    driver.set_drained(Some("new disks".to_owned()));
    assert_eq!(refused("x").await, leaving, "it is said first");
    drop(other);
    let drained = Some("no new work is taken: new disks".to_owned());
    assert_eq!(refused("x").await, drained);
    let leaving = driver.leave();
    driver.set_drained(None);
    assert!(driver.is_leaving());
    assert!(refused("x").await.is_some());
    drop(leaving);
    assert_eq!(refused("x").await, None);
}

#[tokio::test]
async fn followers_hear_only_of_new_capabilities() {
    let bench = bench(&[Service::Controller], &[]);
    let mut grown = bench.driver.capabilities_grown();
    let swap = |services: &[Service]| {
        bench
            .driver
            .activate(offering(services), bench.policy.clone())
    };
    swap(&[Service::Controller]);
    assert!(!grown.has_changed().unwrap());
    swap(&[Service::Controller, Service::Capacity]);
    assert!(grown.has_changed().unwrap());
    grown.mark_unchanged();
    swap(&[Service::Controller]);
    assert!(!grown.has_changed().unwrap());
}

#[tokio::test]
async fn the_first_version_brings_nothing_that_a_client_does_not_know() {
    let bench = bench_without_plugin(Role::All, &[]);
    let grown = bench.driver.capabilities_grown();
    let before = bench.driver.activate(whole(), bench.policy.clone());
    assert!(before.is_none());
    assert!(!grown.has_changed().unwrap());
}

#[tokio::test]
async fn faults_are_sent_to_the_watchers_of_a_version() {
    let bench = full(&[]);
    let (tell, mut told) = mpsc::channel(8);
    let backend = whole();
    backend.script.on("delete_volume", Act::Fail(trapped()));
    let followed = ServingPolicy {
        faults: Some(tell),
        ..policy(&[])
    };
    bench.driver.activate(backend, followed);
    deleted(&bench.driver, "v").await.unwrap_err();
    let fault = told.recv().await.unwrap();
    assert_eq!(fault.kind, FaultKind::Trapped);
    assert_eq!(bench.driver.calls_answered(), 0);

    let sound = whole();
    swapped(&bench, &sound);
    deleted(&bench.driver, "v").await.unwrap();
    assert_eq!(bench.driver.calls_answered(), 1);
    assert_eq!(
        bench.driver.fault_counts(),
        [(FaultKind::Trapped, 1)].into(),
        "those of the driver are counted on"
    );
    let last = bench.driver.last_fault().unwrap();
    assert_eq!(last.fault.kind, FaultKind::Trapped);
    // The new version has no listener; the channel of the old one was closed with it.
    assert!(told.recv().await.is_none());
}

#[tokio::test]
async fn calls_that_ask_the_plugin_are_named_until_they_end() {
    let bench = full(&[]);
    let (mut running, gate) = begun(&bench).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let calls = bench.driver.running_calls();
    assert_eq!(calls.len(), bench.driver.calls_in_flight());
    assert_eq!(calls[0].rpc, Rpc::DeleteVolume);
    assert!(calls[0].since >= Duration::from_millis(20));
    // Including those of a version that was replaced.
    swapped(&bench, &whole());
    assert_eq!(bench.driver.running_calls().len(), calls.len());
    gate.add_permits(1);
    running.join_next().await.unwrap().unwrap().unwrap();
    bench.driver.idle().await;
    assert_eq!(bench.driver.running_calls(), []);
}

#[tokio::test]
async fn an_abandoned_read_is_no_answer_of_a_version() {
    let bench = full(&[]);
    let backend = whole();
    bench.driver.activate(backend.clone(), policy(&[]));
    let read = || {
        bench
            .driver
            .controller_get_volume(incoming(), volume_id("v"))
    };
    backend.script.on("get_volume", Act::UntilCancelled);
    let asked = timeout(Duration::from_millis(100), read()).await;
    assert!(asked.is_err(), "it does not end by itself");
    timeout(SOON, bench.driver.idle()).await.unwrap();
    assert_eq!(backend.script.count("stopped"), 1);
    assert_eq!(bench.driver.calls_answered(), 0);
    backend.script.off("get_volume");
    let _ = read().await;
    assert_eq!(bench.driver.calls_answered(), 1);
}
