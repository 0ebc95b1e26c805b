//! Health: which views are requested, for how long, and the answer when one is missing.

use crate::backend::entry;
use crate::common::*;
use crate::script::{Act, answered};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::backend::{Backend, BackendError};
use wasmount_core::code::Code;
use wasmount_core::driver::{
    HealthPosition, ListVolumeHealthRequest, NodeHealthRequest, Role, Storage, StorageHealth,
    VolumeHealthPage,
};
use wasmount_core::error::Error;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::services::Service;

/// The contract's limit.
const HEALTH_TIME: Duration = Duration::from_secs(2);

fn degraded(reason: &str, message: &str) -> Health {
    Health {
        status: HealthStatus::Degraded,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

async fn health(bench: &Bench, id: &str) -> Result<Vec<Health>, Error> {
    let asked = bench
        .driver
        .controller_get_volume_health(incoming(), volume_id(id));
    asked.await.map(|health| {
        assert_eq!(health.id, volume_id(id));
        health.findings
    })
}

async fn node_health(bench: &Bench, id: &str) -> Result<Vec<Health>, Error> {
    let request = NodeHealthRequest {
        id: volume_id(id),
        publish_path: None,
        staging_path: None,
    };
    let asked = bench.driver.node_get_volume_health(incoming(), request);
    asked.await.map(|health| health.findings)
}

async fn list(
    bench: &Bench,
    max_entries: Option<u32>,
    from: HealthPosition,
) -> Result<VolumeHealthPage, Error> {
    let request = ListVolumeHealthRequest { max_entries, from };
    bench
        .driver
        .controller_list_volume_health(incoming(), request)
        .await
}

fn ids(page: &VolumeHealthPage) -> Vec<&str> {
    page.entries
        .iter()
        .map(|health| health.id.as_str())
        .collect()
}

fn with_volumes(bench: &Bench, ids: &[&str]) {
    *bench.backend.entries.lock().unwrap() = ids.iter().map(|id| entry(id)).collect();
}

fn sick(bench: &Bench, id: &'static str) {
    let findings = vec![degraded("Slow", "")];
    bench
        .backend
        .health_of
        .lock()
        .unwrap()
        .insert(id, Ok(findings));
}

fn fails(bench: &Bench, id: &'static str, code: Code) {
    let error = Err(answered(code));
    bench.backend.health_of.lock().unwrap().insert(id, error);
}

#[tokio::test]
async fn volume_health_is_the_cached_answer_of_the_backend() {
    let bench = full_in_1_13(&[]);
    *bench.backend.health.lock().unwrap() = vec![
        degraded("ReplicaMissing", "a"),
        degraded("ReplicaMissing", "b"),
    ];
    for _ in 0..2 {
        let told = health(&bench, "v").await.unwrap();
        assert_eq!(told, [degraded("ReplicaMissing", "a; b")]);
    }
    assert_eq!(bench.backend.script.count("volume_health"), 1);
}

/// On a node a backend has no records, so it may have no view of its own.
#[tokio::test]
async fn node_health_differs_from_controller_health() {
    let bench = full_in_1_13(&[]);
    fails(&bench, "v", Code::FailedPrecondition);
    assert_eq!(node_health(&bench, "v").await.unwrap(), []);
    sick(&bench, "v");
    assert_eq!(health(&bench, "v").await.unwrap(), [degraded("Slow", "")]);
    assert_eq!(bench.backend.script.count("volume_health"), 2);
}

#[tokio::test]
async fn health_of_an_earlier_version_is_not_reported() {
    let bench = full_in_1_13(&[]);
    fails(&bench, "v", Code::Internal);
    assert_eq!(
        health(&bench, "v").await.unwrap_err().code(),
        Code::Internal
    );
    bench.backend.health_of.lock().unwrap().clear();
    bench.driver.activate(
        Arc::clone(&bench.backend) as Arc<dyn Backend>,
        bench.policy.clone(),
    );
    assert_eq!(health(&bench, "v").await.unwrap(), []);
}

#[tokio::test]
async fn a_volume_that_is_not_there_is_not_found_each_time_anew() {
    let bench = full_in_1_13(&[]);
    fails(&bench, "v", Code::NotFound);
    assert_eq!(
        health(&bench, "v").await.unwrap_err().code(),
        Code::NotFound
    );
    bench.backend.health_of.lock().unwrap().clear();
    assert_eq!(health(&bench, "v").await.unwrap(), []);

    let delete = bench.driver.delete_volume(incoming(), volume_id("v"));
    delete.await.unwrap();
    fails(&bench, "v", Code::NotFound);
    assert_eq!(
        health(&bench, "v").await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_backend_costs_two_seconds_then_is_left_alone() {
    let bench = full_in_1_13(&[]);
    for waited in [HEALTH_TIME, Duration::ZERO] {
        let begun = Instant::now();
        let refused = health(&bench, "hangs").await.unwrap_err();
        assert_eq!(begun.elapsed(), waited);
        assert_eq!(refused.code(), Code::DeadlineExceeded);
        assert_eq!(
            refused.to_string(),
            "plugin fake 1.2.3 (sha256:0) did not answer get-volume-health within 2 s"
        );
    }
}

#[tokio::test]
async fn only_unhealthy_volumes_are_listed_once_in_pages() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, &["a", "b", "c", "d", "e"]);
    for id in ["b", "c", "e"] {
        sick(&bench, id);
    }
    fails(&bench, "d", Code::NotFound);
    for most in [Some(1), Some(2), Some(3), Some(100), None] {
        let mut all = Vec::new();
        let mut from = Some(HealthPosition::default());
        while let Some(position) = from {
            let page = list(&bench, most, position).await.unwrap();
            assert!(page.entries.len() <= most.unwrap_or(100) as usize);
            all.extend(page.entries);
            from = page.next;
        }
        let ids: Vec<_> = all.iter().map(|health| health.id.as_str()).collect();
        assert_eq!(ids, ["b", "c", "e"], "{most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_health_list_out_of_time_continues_after_the_slow_volume() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, &["a", "hangs", "b"]);
    sick(&bench, "a");
    sick(&bench, "b");
    let begun = Instant::now();
    let page = list(&bench, None, HealthPosition::default()).await.unwrap();
    assert_eq!(begun.elapsed(), HEALTH_TIME);
    assert_eq!(ids(&page), ["a"]);
    let next = HealthPosition {
        page: None,
        after: Some(volume_id("hangs")),
    };
    assert_eq!(page.next, Some(next.clone()));
    let rest = list(&bench, None, next).await.unwrap();
    assert_eq!((ids(&rest), &rest.next), (vec!["b"], &None));
}

#[tokio::test]
async fn one_unknown_health_is_omitted_and_all_unknown_fail_the_list() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, &["a", "b"]);
    sick(&bench, "a");
    fails(&bench, "b", Code::Unavailable);
    let page = list(&bench, None, HealthPosition::default()).await.unwrap();
    assert_eq!((ids(&page), &page.next), (vec!["a"], &None));

    with_volumes(&bench, &["b"]);
    let refused = list(&bench, None, HealthPosition::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);

    with_volumes(&bench, &[]);
    let none = list(&bench, None, HealthPosition::default()).await.unwrap();
    assert_eq!((none.entries, none.next), (Vec::new(), None));
}

#[tokio::test]
async fn a_listing_that_leads_back_is_the_plugins_fault() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, &["a"]);
    *bench.backend.same_token.lock().unwrap() = Some("0".to_owned());
    let refused = list(&bench, None, HealthPosition::default()).await;
    let error = refused.unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Backend(BackendError::BadAnswer {
                function: "list-volumes",
                ..
            })
        ),
        "{error}"
    );
}

#[tokio::test]
async fn on_the_node_host_and_backend_are_joined() {
    let bench = full_in_1_13(&[]);
    *bench.mounter.health.lock().unwrap() = Some(vec![degraded("Slow", "here")]);
    *bench.backend.health.lock().unwrap() = vec![degraded("Slow", "there"), degraded("Old", "")];
    assert_eq!(
        node_health(&bench, "v").await.unwrap(),
        [degraded("Slow", "here; there"), degraded("Old", "")]
    );
}

#[tokio::test]
async fn on_the_node_the_hosts_view_stands_whatever_the_backend_says() {
    for code in [Code::FailedPrecondition, Code::NotFound, Code::Internal] {
        let bench = full_in_1_13(&[]);
        *bench.mounter.health.lock().unwrap() = Some(vec![degraded("Slow", "here")]);
        fails(&bench, "v", code);
        let told = node_health(&bench, "v").await.unwrap();
        assert_eq!(told, [degraded("Slow", "here")], "{code:?}");
    }
    let without = without_plugin(in_1_13(config(wasmount_core::driver::Role::All, &[])));
    assert_eq!(node_health(&without, "v").await.unwrap(), []);
}

#[tokio::test]
async fn a_lost_volume_is_reported_if_the_backend_knows_why() {
    let bench = full_in_1_13(&[]);
    *bench.mounter.health.lock().unwrap() = None;
    *bench.backend.health.lock().unwrap() = vec![degraded("Old", "")];
    let told = node_health(&bench, "v").await.unwrap();
    assert_eq!(told, [degraded("Old", "")]);
    for code in [Code::FailedPrecondition, Code::NotFound, Code::Unavailable] {
        fails(&bench, "w", code);
        let refused = node_health(&bench, "w").await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{code:?}");
    }
    let silent = bench_in_1_13(&[Service::NodeStage], &[]);
    *silent.mounter.health.lock().unwrap() = None;
    let refused = node_health(&silent, "v").await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn a_mount_room_that_fails_fails_the_nodes_health() {
    let bench = full_in_1_13(&[]);
    let away = Act::Fail(answered(Code::Internal));
    bench.mounter.script.on("health", away);
    let refused = node_health(&bench, "v").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn pools_are_queried_at_once_and_failures_reported() {
    let bench = full_in_1_13(&[]);
    let storage = || bench.driver.node_get_storage_health(incoming());
    assert_eq!(storage().await.unwrap(), []);
    *bench.mounter.pools.lock().unwrap() = vec!["slow".to_owned(), "well".to_owned()];
    assert_eq!(storage().await.unwrap(), []);

    bench.mounter.script.on("slow", Act::Hang);
    let begun = Instant::now();
    let hung = StorageHealth {
        reason: "PoolNotAnswering",
        message: "pool `slow`: the pool is not answering: no answer within 2 s".to_owned(),
    };
    assert_eq!(storage().await.unwrap(), [hung]);
    assert_eq!(begun.elapsed(), HEALTH_TIME);

    let broken = Act::Fail(answered(Code::NotFound));
    bench.mounter.script.on("slow", broken);
    let reasons: Vec<_> = storage()
        .await
        .unwrap()
        .into_iter()
        .map(|sick| sick.reason)
        .collect();
    assert_eq!(reasons, ["PoolNotUsable"]);
}

#[tokio::test]
async fn pools_of_another_host_are_not_queried() {
    let node = bench_without_plugin(Role::Node, &[]);
    let standby = full(&[]);
    standby.driver.stand_by();
    for bench in [&node, &standby] {
        *bench.mounter.pools.lock().unwrap() = vec!["data".to_owned()];
        assert_eq!(bench.driver.storage().await.unwrap(), Storage::default());
        assert_eq!(bench.mounter.script.calls(), [""; 0]);
    }
    standby.driver.work_while(|| true);
    standby.driver.storage().await.unwrap();
    assert_eq!(standby.mounter.script.calls(), ["pool data"]);
}

#[tokio::test]
async fn health_is_answered_while_a_volume_changes() {
    let bench = full_in_1_13(&[]);
    with_volumes(&bench, &["v"]);
    let gate = bench.backend.script.hold("delete_volume");
    let driver = bench.driver.clone();
    let delete =
        tokio::spawn(async move { driver.delete_volume(incoming(), volume_id("v")).await });
    bench.backend.script.arrived("delete_volume", 1).await;
    health(&bench, "v").await.unwrap();
    node_health(&bench, "v").await.unwrap();
    list(&bench, None, HealthPosition::default()).await.unwrap();
    gate.add_permits(1);
    delete.await.unwrap().unwrap();
}
