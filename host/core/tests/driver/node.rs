//! Calls of the Node service: when the plugin is called, and when not.

use crate::backend::plan;
use crate::common::*;
use crate::mounter::USAGE;
use crate::script::{Act, answered};
use std::time::Duration;
use wasmount_core::code::Code;
use wasmount_core::driver::{NodeExpandRequest, NodePublishRequest, Role};
use wasmount_core::error::Error;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::services::{Feature, Service};
use wasmount_core::volume::{CapacityRange, VolumeCondition};

#[tokio::test]
async fn a_volume_that_is_staged_is_not_asked_for_again() {
    let bench = full(&[]);
    for _ in 0..2 {
        let staged = bench.driver.node_stage_volume(incoming(), stage("v"));
        staged.await.unwrap();
    }
    assert_eq!(bench.backend.script.calls(), ["node_stage v"]);
    assert_eq!(bench.mounter.script.calls(), ["stage v"]);
}

#[tokio::test]
async fn a_backend_that_refuses_leaves_nothing_to_the_mount_room() {
    let bench = full(&[]);
    let refusal = answered(Code::NotFound);
    bench.backend.script.on("node_stage", Act::Fail(refusal));
    let refused = bench.driver.node_stage_volume(incoming(), stage("v")).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    assert_eq!(bench.mounter.script.count("stage"), 0);
}

#[tokio::test]
async fn publishing_a_staged_volume_does_not_ask_the_backend() {
    let bench = full(&[]);
    let published = bench
        .driver
        .node_publish_volume(incoming(), publish("v", "/t"));
    published.await.unwrap();
    assert_eq!(bench.backend.script.calls(), Vec::<String>::new());
    let request = bench.mounter.published.lock().unwrap().pop().unwrap();
    assert_eq!(request.staging_path, Some(path("/staging")));
    assert_eq!(request.plan, None);
}

#[tokio::test]
async fn a_publish_before_its_stage_is_a_failed_precondition() {
    let bench = full(&[]);
    let request = NodePublishRequest {
        staging_path: None,
        ..publish("v", "/t")
    };
    let refused = bench.driver.node_publish_volume(incoming(), request).await;
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(bench.mounter.script.count("publish"), 0);
}

#[tokio::test]
async fn a_volume_without_a_stage_step_is_published_by_its_plan() {
    let staged_elsewhere = bench(&[Service::NodePublish], &[]);
    let inline = full(&[]);
    let request = NodePublishRequest {
        staging_path: None,
        ..publish("v", "/t")
    };
    let mut ephemeral = request.clone();
    ephemeral.volume.ephemeral = true;
    for (bench, request) in [(staged_elsewhere, request), (inline, ephemeral)] {
        let published = bench.driver.node_publish_volume(incoming(), request);
        published.await.unwrap();
        assert_eq!(bench.backend.script.calls(), ["node_publish v"]);
        let request = bench.mounter.published.lock().unwrap().pop().unwrap();
        assert_eq!((request.staging_path, request.plan), (None, Some(plan())));
    }
}

#[tokio::test]
async fn inline_volumes_need_a_backend_that_can_create_them() {
    let bench = bench(&[Service::NodeStage], &[]);
    let mut request = publish("v", "/t");
    request.volume.ephemeral = true;
    let refused = bench.driver.node_publish_volume(incoming(), request).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn without_a_plugin_kernel_and_journal_answer() {
    let bench = bench_without_plugin(Role::Node, &[]);
    let driver = &bench.driver;
    bench.mounter.staged.lock().unwrap().insert(volume_id("v"));
    driver
        .node_stage_volume(incoming(), stage("v"))
        .await
        .unwrap();
    let publish = driver.node_publish_volume(incoming(), publish("v", "/t"));
    publish.await.unwrap();
    let stats = driver.node_get_volume_stats(incoming(), stats("v"));
    assert_eq!(stats.await.unwrap().usage, Some(USAGE));
    let expanded = driver.node_expand_volume(incoming(), expansion());
    assert_eq!(expanded.await.unwrap(), 7);
    let unpublish = driver.node_unpublish_volume(incoming(), volume_id("v"), path("/t"));
    unpublish.await.unwrap();
    let unstage = driver.node_unstage_volume(incoming(), volume_id("v"), path("/staging"));
    unstage.await.unwrap();
    assert_eq!(
        bench.mounter.script.calls(),
        [
            "publish v",
            "stats v",
            "expand v",
            "unpublish v",
            "unstage v"
        ]
    );
}

#[tokio::test]
async fn without_a_plugin_calls_that_need_a_plan_are_unavailable() {
    let bench = bench_without_plugin(Role::All, &[]);
    bench.driver.set_fault("its file is missing".to_owned());
    let stage = bench.driver.node_stage_volume(incoming(), stage("v"));
    let inline = NodePublishRequest {
        staging_path: None,
        ..publish("v", "/t")
    };
    let publish = bench.driver.node_publish_volume(incoming(), inline);
    for error in [stage.await.unwrap_err(), publish.await.unwrap_err()] {
        assert_eq!(error.code(), Code::Unavailable);
        assert_eq!(
            error.to_string(),
            "the plugin of fake.example.com is not ready: its file is missing"
        );
    }
}

#[tokio::test]
async fn statistics_carry_a_cached_condition() {
    let bench = full(&[]);
    let read = || bench.driver.node_get_volume_stats(incoming(), stats("v"));
    bench.backend.health.lock().unwrap().push(Health {
        status: HealthStatus::Degraded,
        reason: "Degraded".to_owned(),
        message: "one disk is gone".to_owned(),
    });
    for _ in 0..2 {
        assert_eq!(
            read().await.unwrap().condition,
            Some(VolumeCondition {
                abnormal: true,
                message: "Degraded: one disk is gone".to_owned()
            })
        );
    }
    assert_eq!(bench.backend.script.count("volume_health"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_condition_does_not_delay_statistics() {
    let bench = full(&[]);
    bench.backend.script.on("volume_health", Act::Hang);
    let begun = tokio::time::Instant::now();
    let read = bench.driver.node_get_volume_stats(incoming(), stats("v"));
    let answer = read.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    assert_eq!(answer.usage, Some(USAGE));
    assert!(!answer.condition.unwrap().abnormal);
}

#[tokio::test]
async fn findings_of_the_host_are_reported_for_every_backend() {
    let bench = bench(&[Service::NodeStage], &[]);
    let read = async || {
        let read = bench.driver.node_get_volume_stats(incoming(), stats("v"));
        let condition = read.await.unwrap().condition.unwrap();
        (condition.abnormal, condition.message)
    };
    assert_eq!(read().await, (false, String::new()));
    *bench.mounter.health.lock().unwrap() = Some(vec![Health {
        status: HealthStatus::Degraded,
        reason: "ReadOnly".to_owned(),
        message: "after an error".to_owned(),
    }]);
    assert_eq!(read().await, (true, "ReadOnly: after an error".to_owned()));
    *bench.mounter.health.lock().unwrap() = None;
    let words = "the condition is not known: v does not exist".to_owned();
    assert_eq!(read().await, (false, words));
    let gone: Result<(), Error> = bench
        .driver
        .serves(wasmount_core::rpc::Rpc::NodeExpandVolume);
    assert_eq!(gone.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn csi_1_13_answers_have_no_condition() {
    let bench = full_in_1_13(&[]);
    let mut listed = crate::backend::entry("v");
    listed.status.condition = Some(VolumeCondition {
        abnormal: false,
        message: "the backend's own".to_owned(),
    });
    *bench.backend.entries.lock().unwrap() = vec![listed];
    let driver = &bench.driver;
    let read = driver.node_get_volume_stats(incoming(), stats("v"));
    assert_eq!(read.await.unwrap().condition, None);
    let page = driver.list_volumes(incoming(), Default::default());
    let found = driver.controller_get_volume(incoming(), volume_id("v"));
    for entry in [
        page.await.unwrap().entries.first().unwrap(),
        &found.await.unwrap(),
    ] {
        assert_eq!(entry.status.condition, None);
    }
    assert_eq!(bench.backend.script.count("volume_health"), 0);
    assert_eq!(bench.mounter.script.count("health"), 0);
}

fn expansion() -> NodeExpandRequest {
    NodeExpandRequest {
        id: volume_id("v"),
        volume_path: path("/t"),
        capacity: CapacityRange::new(Some(7), None).unwrap(),
    }
}

#[tokio::test]
async fn only_a_driver_that_grows_on_the_node_has_its_object_grown() {
    let with_controller = bench(&[Service::NodeStage, Service::ControllerExpand], &[]);
    let on_node = bench(&[Service::NodeStage], &[Feature::NodeOnlyExpansion]);
    for (bench, calls) in [
        (with_controller, &["expand v"][..]),
        (on_node, &["expand v", "grow v"]),
        (bench_without_plugin(Role::Node, &[]), &["expand v"]),
    ] {
        let expanded = bench.driver.node_expand_volume(incoming(), expansion());
        assert_eq!(expanded.await.unwrap(), 7);
        assert_eq!(bench.mounter.script.calls(), calls);
    }
}
