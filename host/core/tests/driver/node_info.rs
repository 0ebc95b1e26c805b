//! NodeGetInfo: the first answer remains in force.

use crate::backend::FakeBackend;
use crate::common::*;
use crate::script::{Act, trapped};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wasmount_core::backend::NodeDescription;
use wasmount_core::code::Code;
use wasmount_core::driver::{Driver, NodeInfo, Role};
use wasmount_core::names::NodeId;
use wasmount_core::services::{Service, ServiceSet};
use wasmount_core::topology::Topology;

fn description(id: &str, zone: &str, max_volumes: u64) -> NodeDescription {
    NodeDescription {
        id: Some(NodeId::parse("node_id", id).unwrap()),
        max_volumes: Some(max_volumes),
        topology: Some(Topology {
            segments: attributes(&[("zone", zone)]),
        }),
    }
}

fn info(id: &str, zone: &str, max_volumes: u64) -> NodeInfo {
    let NodeDescription {
        id,
        max_volumes,
        topology,
    } = description(id, zone, max_volumes);
    NodeInfo {
        id: id.unwrap(),
        max_volumes,
        topology,
    }
}

fn says(said: NodeDescription) -> Arc<FakeBackend> {
    let offer = ServiceSet::new(Service::ALL.iter().copied(), []);
    let backend = FakeBackend::new(offer);
    *backend.node.lock().unwrap() = said;
    Arc::new(backend)
}

#[tokio::test]
async fn a_backend_is_asked_once_and_its_answer_is_kept_durably() {
    let bench = bench_without_plugin(Role::All, &[]);
    let backend = says(description("storage-1", "a", 5));
    bench.driver.activate(backend.clone(), policy(&[]));
    for _ in 0..3 {
        let answer = bench.driver.node_get_info(incoming()).await.unwrap();
        assert_eq!(answer, info("storage-1", "a", 5));
    }
    assert_eq!(backend.script.count("node_info"), 1);
    assert_eq!(bench.state.synced.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn another_version_may_change_the_volume_limit_and_nothing_else() {
    let bench = bench_without_plugin(Role::All, &[]);
    for backend in [
        says(description("storage-1", "a", 5)),
        says(description("storage-2", "b", 9)),
    ] {
        bench.driver.activate(backend, policy(&[]));
        bench.driver.node_get_info(incoming()).await.unwrap();
    }
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 9));
}

#[tokio::test]
async fn a_plugin_that_fails_leaves_what_was_kept_and_is_asked_again() {
    let bench = bench_without_plugin(Role::All, &[]);
    bench
        .driver
        .activate(says(description("storage-1", "a", 5)), policy(&[]));
    bench.driver.node_get_info(incoming()).await.unwrap();
    let sick = says(description("storage-1", "a", 9));
    sick.script.on("node_info", Act::Fail(trapped()));
    bench.driver.activate(sick.clone(), policy(&[]));
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 5));
    sick.script.off("node_info");
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 9));
}

#[tokio::test]
async fn a_driver_without_plugin_answers_from_recorded_services() {
    let bench = bench_without_plugin(Role::Node, &[]);
    let early = bench.driver.node_get_info(incoming()).await;
    assert_eq!(early.unwrap_err().code(), Code::Unavailable);

    bench
        .driver
        .activate(says(description("storage-1", "a", 5)), policy(&[]));
    bench.driver.node_get_info(incoming()).await.unwrap();
    let restarted = bench.restarted();
    let answer = restarted.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 5));
}

#[tokio::test]
async fn without_the_interface_the_node_is_the_hosts() {
    let bench = bench(&[Service::NodeStage], &[]);
    let host = NodeInfo {
        id: NodeId::parse("node_id", "host-node").unwrap(),
        max_volumes: None,
        topology: None,
    };
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, host);
    let restarted = bench.restarted();
    assert_eq!(restarted.node_get_info(incoming()).await.unwrap(), host);
}

#[tokio::test]
async fn a_changed_volume_limit_is_answered_and_watched() {
    let bench = bench_without_plugin(Role::All, &[]);
    let mut answers = bench.driver.node_info_answers();
    assert_eq!(*answers.borrow_and_update(), None);
    let early = bench.driver.refresh_node_info(incoming()).await;
    assert_eq!(early.unwrap_err().code(), Code::Unavailable);

    let backend = says(description("storage-1", "a", 5));
    bench.driver.activate(backend.clone(), policy(&[]));
    bench.driver.node_get_info(incoming()).await.unwrap();
    assert!(answers.has_changed().unwrap());
    let first = answers.borrow_and_update().clone();
    assert_eq!(first, Some(info("storage-1", "a", 5)));

    // Id and topology are frozen, even if a plugin changes them at run time.
    *backend.node.lock().unwrap() = description("storage-2", "b", 7);
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 5));
    let answer = bench.driver.refresh_node_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 7));
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 7));
    assert_eq!(*answers.borrow_and_update(), Some(answer));
    assert_eq!(backend.script.count("node_info"), 2);

    bench.driver.refresh_node_info(incoming()).await.unwrap();
    assert!(!answers.has_changed().unwrap(), "nothing changed");
}

#[tokio::test]
async fn a_refresh_that_fails_leaves_the_last_answer() {
    let bench = bench_without_plugin(Role::All, &[]);
    let backend = says(description("storage-1", "a", 5));
    bench.driver.activate(backend.clone(), policy(&[]));
    bench.driver.node_get_info(incoming()).await.unwrap();
    backend.script.on("node_info", Act::Fail(trapped()));
    bench
        .driver
        .refresh_node_info(incoming())
        .await
        .unwrap_err();
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 5));
}

fn follow(driver: &Arc<Driver>, period: Option<Duration>) -> JoinSet<()> {
    let driver = driver.clone();
    let mut task = JoinSet::new();
    task.spawn(async move { driver.watch_node_info(period).await });
    task
}

#[tokio::test(start_paused = true)]
async fn recorded_services_are_served_until_a_plugin_answers() {
    let bench = bench_without_plugin(Role::All, &[]);
    let _task = follow(&bench.driver, None);
    let mut answers = bench.driver.node_info_answers();
    for limit in [5, 7] {
        bench
            .driver
            .activate(says(description("storage-1", "a", limit)), policy(&[]));
        answers.changed().await.unwrap();
        let told = answers.borrow_and_update().clone();
        assert_eq!(told, Some(info("storage-1", "a", limit)));
    }

    // kubelet calls an upgraded host before its plugin is loaded, and never again.
    let upgraded = bench.restarted();
    let _task = follow(&upgraded, None);
    let mut answers = upgraded.node_info_answers();
    answers.changed().await.unwrap();
    let told = answers.borrow_and_update().clone();
    assert_eq!(told, Some(info("storage-1", "a", 7)));
    upgraded.activate(says(description("storage-1", "a", 9)), policy(&[]));
    answers.changed().await.unwrap();
    let told = answers.borrow_and_update().clone();
    assert_eq!(told, Some(info("storage-1", "a", 9)));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_asked_until_it_answers_then_in_each_period() {
    let bench = bench_without_plugin(Role::All, &[]);
    let backend = says(description("storage-1", "a", 5));
    backend.script.on("node_info", Act::Fail(trapped()));
    bench.driver.activate(backend.clone(), policy(&[]));
    let _task = follow(&bench.driver, Some(Duration::from_secs(60)));
    // After 0, 1, 3 and 7 s.
    sleep(Duration::from_secs(10)).await;
    assert_eq!(backend.script.count("node_info"), 4);
    backend.script.off("node_info");
    let mut answers = bench.driver.node_info_answers();
    answers.changed().await.unwrap();
    assert_eq!(backend.script.count("node_info"), 5);
    sleep(Duration::from_secs(150)).await;
    assert_eq!(backend.script.count("node_info"), 7);
}

#[tokio::test(start_paused = true)]
async fn without_a_period_an_answered_plugin_is_not_asked_again() {
    let bench = bench_without_plugin(Role::All, &[]);
    let backend = says(description("storage-1", "a", 5));
    bench.driver.activate(backend.clone(), policy(&[]));
    let _task = follow(&bench.driver, None);
    sleep(Duration::from_secs(86_400)).await;
    assert_eq!(backend.script.count("node_info"), 1);
}
