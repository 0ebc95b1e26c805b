//! NodeGetInfo: what was said first stands.

use crate::backend::FakeBackend;
use crate::script::{Act, trapped};
use crate::words::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wasmount_core::backend::NodeDescription;
use wasmount_core::code::Code;
use wasmount_core::driver::{NodeInfo, Role};
use wasmount_core::names::NodeId;
use wasmount_core::services::{Offer, Service};
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
    let offer = Offer::new(Service::ALL.iter().copied(), []);
    let backend = FakeBackend::new(offer);
    *backend.node.lock().unwrap() = said;
    Arc::new(backend)
}

#[tokio::test]
async fn a_backend_is_asked_once_and_its_answer_is_kept_durably() {
    let bench = bench_without_plugin(Role::All, &[]);
    let backend = says(description("storage-1", "a", 5));
    bench.driver.put_to_use(backend.clone());
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
        bench.driver.put_to_use(backend);
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
        .put_to_use(says(description("storage-1", "a", 5)));
    bench.driver.node_get_info(incoming()).await.unwrap();
    let sick = says(description("storage-1", "a", 9));
    sick.script.on("node_info", Act::Fail(trapped()));
    bench.driver.put_to_use(sick.clone());
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 5));
    sick.script.off("node_info");
    let answer = bench.driver.node_get_info(incoming()).await.unwrap();
    assert_eq!(answer, info("storage-1", "a", 9));
}

#[tokio::test]
async fn a_driver_without_a_plugin_says_what_was_kept_and_nothing_before() {
    let bench = bench_without_plugin(Role::Node, &[]);
    let early = bench.driver.node_get_info(incoming()).await;
    assert_eq!(early.unwrap_err().code(), Code::Unavailable);

    bench
        .driver
        .put_to_use(says(description("storage-1", "a", 5)));
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
async fn a_limit_that_is_asked_anew_is_the_answer_from_then_on_and_whoever_follows_hears_of_it() {
    let bench = bench_without_plugin(Role::All, &[]);
    let mut answers = bench.driver.node_info_answers();
    assert_eq!(*answers.borrow_and_update(), None);
    let early = bench.driver.refresh_node_info(incoming()).await;
    assert_eq!(early.unwrap_err().code(), Code::Unavailable);

    let backend = says(description("storage-1", "a", 5));
    bench.driver.put_to_use(backend.clone());
    bench.driver.node_get_info(incoming()).await.unwrap();
    assert!(answers.has_changed().unwrap());
    let first = answers.borrow_and_update().clone();
    assert_eq!(first, Some(info("storage-1", "a", 5)));

    // Id and topology are frozen, also for a plugin that changes its mind while it runs.
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
    bench.driver.put_to_use(backend.clone());
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
