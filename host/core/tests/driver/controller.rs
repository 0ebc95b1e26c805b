//! Decisions that CSI leaves to no backend.

use crate::backend::{entry, snapshot};
use crate::common::*;
use crate::script::{Act, answered, trapped};
use wasmount_core::backend::{ControllerPublish, CreateVolume};
use wasmount_core::code::Code;
use wasmount_core::driver::ListSnapshotsRequest;
use wasmount_core::error::Error;
use wasmount_core::names::NodeId;
use wasmount_core::services::{Feature, Service};
use wasmount_core::topology::Topology;
use wasmount_core::volume::{ContentSource, VolumeCondition};

fn clone_of(source: &str) -> CreateVolume {
    create_from("x", ContentSource::Volume(volume_id(source)))
}

fn restore_of(source: &str) -> CreateVolume {
    create_from("x", ContentSource::Snapshot(snapshot_id(source)))
}

fn mutable() -> CreateVolume {
    CreateVolume {
        mutable_parameters: attributes(&[("iops", "1")]),
        ..create("x")
    }
}

#[tokio::test]
async fn what_is_offered_is_passed_on() {
    for args in [clone_of("s"), restore_of("s"), mutable()] {
        let bench = full(&[Feature::CloneVolume]);
        let source = args.content_source.clone();
        let volume = bench.driver.create_volume(incoming(), args).await.unwrap();
        assert_eq!(volume.content_source, source);
    }
}

#[tokio::test]
async fn services_not_offered_are_invalid_arguments() {
    for args in [clone_of("s"), restore_of("s"), mutable()] {
        let bench = bench(&[Service::Controller], &[]);
        let refused = bench.driver.create_volume(incoming(), args).await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(bench.backend.script.count("create_volume"), 0);
    }
}

/// "A plugin that returns this field MUST also set the VOLUME_ACCESSIBILITY_CONSTRAINTS plugin capability."
#[tokio::test]
async fn a_volumes_place_is_passed_on_only_where_volumes_have_one() {
    for (features, places) in [(&[Feature::Topology][..], 1), (&[], 0)] {
        let bench = full(features);
        let mut placed = entry("v");
        placed.volume.accessible_topology = vec![Topology {
            segments: attributes(&[("zone", "a")]),
        }];
        let volumes = &bench.backend.volumes;
        volumes
            .lock()
            .unwrap()
            .insert("v".to_owned(), placed.volume.clone());
        *bench.backend.entries.lock().unwrap() = vec![placed];
        let driver = &bench.driver;
        let made = driver.create_volume(incoming(), create("v")).await.unwrap();
        let listed = driver.list_volumes(incoming(), Default::default()).await;
        let listed = listed.unwrap().entries.remove(0).volume;
        for volume in [made, listed] {
            assert_eq!(volume.accessible_topology.len(), places, "{features:?}");
        }
    }
}

#[tokio::test]
async fn publishing_read_only_needs_the_feature() {
    let args = || ControllerPublish {
        id: volume_id("v"),
        node: NodeId::parse("node_id", "n").unwrap(),
        capability: capability(),
        readonly: true,
        context: attributes(&[]),
    };
    let with = full(&[Feature::PublishReadonly]);
    let published = with.driver.controller_publish_volume(incoming(), args());
    assert!(published.await.is_ok());
    let without = full(&[]);
    let refused = without.driver.controller_publish_volume(incoming(), args());
    assert_eq!(refused.await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_listed_is_not_shown_before_ready() {
    let unlisted = bench(&[Service::Controller, Service::Snapshots], &[]);
    let listed = full(&[]);
    for bench in [&unlisted, &listed] {
        bench.backend.snapshot.lock().unwrap().ready_to_use = false;
    }
    let early = unlisted
        .driver
        .create_snapshot(incoming(), create_snapshot("s", "v"));
    let early = early.await.unwrap_err();
    assert!(matches!(&early, Error::SnapshotNotReady { id } if id == "snap"));
    assert_eq!(early.code(), Code::Aborted);
    unlisted.backend.snapshot.lock().unwrap().ready_to_use = true;
    for (bench, ready) in [(&unlisted, true), (&listed, false)] {
        let made = bench
            .driver
            .create_snapshot(incoming(), create_snapshot("s", "v"));
        assert_eq!(made.await.unwrap().ready_to_use, ready);
    }
    // The retry is CreateSnapshot itself, by the same name.
    assert_eq!(unlisted.backend.script.calls(), ["create_snapshot s"; 2]);
}

#[tokio::test]
async fn listing_one_snapshot_is_a_lookup_and_may_be_empty() {
    let bench = full(&[]);
    let list = |snapshot: &str, source: Option<&str>| {
        let request = ListSnapshotsRequest {
            snapshot: Some(snapshot_id(snapshot)),
            source_volume: source.map(volume_id),
            ..ListSnapshotsRequest::default()
        };
        let driver = bench.driver.clone();
        async move { driver.list_snapshots(incoming(), request).await }
    };
    let one = [snapshot("snap", "v")];
    assert_eq!(list("snap", None).await.unwrap().entries, one);
    assert_eq!(list("snap", Some("v")).await.unwrap().entries, one);
    assert_eq!(list("snap", Some("other")).await.unwrap().entries, []);
    assert_eq!(bench.backend.script.count("list_snapshots"), 0);

    let script = &bench.backend.script;
    script.on("get_snapshot", Act::Fail(answered(Code::NotFound)));
    assert_eq!(list("snap", None).await.unwrap().entries, []);
    script.on("get_snapshot", Act::Fail(answered(Code::Unavailable)));
    let failed = list("snap", None).await;
    assert_eq!(failed.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn listed_volumes_carry_what_is_advertised_and_no_more() {
    let mut listed = entry("v");
    listed.status.published_nodes = vec![NodeId::parse("node_id", "n").unwrap()];
    let healthy = Some(VolumeCondition {
        abnormal: false,
        message: String::new(),
    });
    for (features, nodes) in [(&[Feature::PublishedNodes][..], 1), (&[][..], 0)] {
        let bench = full(features);
        *bench.backend.entries.lock().unwrap() = vec![listed.clone()];
        let page = bench.driver.list_volumes(incoming(), Default::default());
        let entries = page.await.unwrap().entries;
        let looked_up = bench
            .driver
            .controller_get_volume(incoming(), volume_id("v"));
        for entry in [entries.first().unwrap(), &looked_up.await.unwrap()] {
            assert_eq!(entry.status.published_nodes.len(), nodes);
            assert_eq!(entry.status.condition, healthy);
        }
    }
}

/// After a final code external-provisioner drops the claim, and after RESOURCE_EXHAUSTED another node creates the volume a second time.
#[tokio::test]
async fn a_failure_after_an_effect_is_answered_to_be_retried() {
    for (failure, code, after_effect) in [
        (trapped(), Code::Internal, Code::Aborted),
        (
            answered(Code::ResourceExhausted),
            Code::ResourceExhausted,
            Code::Aborted,
        ),
        (
            answered(Code::InvalidArgument),
            Code::InvalidArgument,
            Code::Aborted,
        ),
        (
            answered(Code::Unavailable),
            Code::Unavailable,
            Code::Unavailable,
        ),
    ] {
        for (changes, expected) in [(false, code), (true, after_effect)] {
            let bench = full(&[]);
            *bench.backend.changes.lock().unwrap() = changes;
            let script = &bench.backend.script;
            script.on("create_volume", Act::Fail(failure.clone()));
            let failed = bench.driver.create_volume(incoming(), create("x")).await;
            let failed = failed.unwrap_err();
            assert_eq!(failed.code(), expected, "{failure}");
            let faults = usize::from(code == Code::Internal);
            assert_eq!(bench.driver.fault_counts().len(), faults, "{failure}");
        }
    }
}
