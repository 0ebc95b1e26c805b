//! Requests that cannot be met: incomplete, contradictory, too large, or not offered by the plugin. Nothing of them is left.

use crate::life::{assert_codes, assert_nothing_left, serving};
use std::fs;
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_capability::{AccessType, BlockVolume};
use wasmount_csi::wire::csi::v1::volume_content_source::{Type, VolumeSource};
use wasmount_csi::wire::csi::v1::{
    CapacityRange, ControllerPublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    ListVolumesRequest, VolumeCapability, VolumeContentSource,
};
use wasmount_tests::orchestrator::{VOLUME_BYTES, code};
use wasmount_tests::requests;

fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..requests::capability()
    }
}

#[tokio::test]
async fn privileged_an_impossible_volume_is_refused() {
    let (host, orchestrator) = serving().await;
    let request = || requests::create("pvc", VOLUME_BYTES);
    let range = |required_bytes, limit_bytes| CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..request()
    };
    let with = |capability| CreateVolumeRequest {
        volume_capabilities: vec![capability],
        ..request()
    };
    let source = VolumeContentSource {
        r#type: Some(Type::Volume(VolumeSource {
            volume_id: "unknown".to_owned(),
        })),
    };
    let wishes = [
        ("no name", requests::create("", 1), Code::InvalidArgument),
        (
            "no capability",
            CreateVolumeRequest {
                volume_capabilities: Vec::new(),
                ..request()
            },
            Code::InvalidArgument,
        ),
        ("negative", range(-1, 0), Code::InvalidArgument),
        ("limit below required", range(2, 1), Code::InvalidArgument),
        ("smaller than possible", range(1, 100), Code::OutOfRange),
        (
            "more than the disk",
            range(i64::MAX, 0),
            Code::ResourceExhausted,
        ),
        ("block", with(block()), Code::InvalidArgument),
        (
            "many nodes",
            with(requests::mounted(Mode::MultiNodeMultiWriter, &[])),
            Code::InvalidArgument,
        ),
        (
            "an unknown parameter",
            CreateVolumeRequest {
                parameters: [("sizze".to_owned(), "1".to_owned())].into(),
                ..request()
            },
            Code::InvalidArgument,
        ),
        (
            "a source",
            CreateVolumeRequest {
                volume_content_source: Some(source),
                ..request()
            },
            Code::InvalidArgument,
        ),
    ];
    let mut table = Vec::new();
    for (wish, request, expected) in wishes {
        let answer = orchestrator.create(request).await;
        table.push((wish, code(&answer), expected));
    }
    assert_codes(&table);
    assert_nothing_left(&host);

    let (id, bytes) = orchestrator.create(request()).await.unwrap();
    assert_eq!(bytes, VOLUME_BYTES);
    let no_range = requests::expand(&id, 0);
    let too_much = requests::expand(&id, i64::MAX);
    let less = requests::expand(&id, VOLUME_BYTES / 2);
    let unknown = requests::expand("unknown", VOLUME_BYTES);
    assert_eq!(
        orchestrator.expand(less).await.unwrap(),
        (VOLUME_BYTES, false)
    );
    assert_codes(&[
        (
            "create of another size",
            code(&orchestrator.create(range(2 * VOLUME_BYTES, 0)).await),
            Code::AlreadyExists,
        ),
        (
            "expand without bytes",
            code(&orchestrator.expand(no_range).await),
            Code::InvalidArgument,
        ),
        (
            "expand beyond the disk",
            code(&orchestrator.expand(too_much).await),
            Code::ResourceExhausted,
        ),
        (
            "expand an unknown volume",
            code(&orchestrator.expand(unknown).await),
            Code::NotFound,
        ),
        (
            "delete without id",
            code(&orchestrator.delete("").await),
            Code::InvalidArgument,
        ),
    ]);
    orchestrator.delete(&id).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_incomplete_node_calls_are_refused() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    let (id, nowhere) = (volume.id.as_str(), Path::new(""));
    let mut table = Vec::new();
    let mut no_capability = requests::stage(id, &volume.staging);
    no_capability.volume_capability = None;
    let mut as_block = requests::stage(id, &volume.staging);
    as_block.volume_capability = Some(block());
    let missing = orchestrator
        .place("missing", id.to_owned())
        .unwrap()
        .staging;
    fs::remove_dir(&missing).unwrap();
    for (what, request, expected) in [
        (
            "no id",
            requests::stage("", &volume.staging),
            Code::InvalidArgument,
        ),
        (
            "no path",
            requests::stage(id, nowhere),
            Code::InvalidArgument,
        ),
        ("no capability", no_capability, Code::InvalidArgument),
        ("a directory as a device", as_block, Code::InvalidArgument),
        (
            "unknown volume",
            requests::stage("unknown", &volume.staging),
            Code::NotFound,
        ),
        (
            "no directory",
            requests::stage(id, &missing),
            Code::FailedPrecondition,
        ),
    ] {
        table.push((what, code(&orchestrator.stage_as(request).await), expected));
    }
    orchestrator.stage(&volume).await.unwrap();
    let mut no_capability = requests::publish(id, &volume.staging, &volume.target);
    no_capability.volume_capability = None;
    let no_parent = host
        .kubelet()
        .join("pods/none/volumes/kubernetes.io~csi/pvc/mount");
    for (what, request, expected) in [
        (
            "publish without id",
            requests::publish("", &volume.staging, &volume.target),
            Code::InvalidArgument,
        ),
        (
            "publish without target",
            requests::publish(id, &volume.staging, nowhere),
            Code::InvalidArgument,
        ),
        (
            "publish without staging path",
            requests::publish(id, nowhere, &volume.target),
            Code::FailedPrecondition,
        ),
        (
            "publish without capability",
            no_capability,
            Code::InvalidArgument,
        ),
        (
            "publish without parent",
            requests::publish(id, &volume.staging, &no_parent),
            Code::FailedPrecondition,
        ),
    ] {
        table.push((
            what,
            code(&orchestrator.publish_as(request).await),
            expected,
        ));
    }
    table.extend([
        (
            "unpublish without id",
            code(&orchestrator.unpublish_at("", &volume.target).await),
            Code::InvalidArgument,
        ),
        (
            "unstage without path",
            code(&orchestrator.unstage_at(id, nowhere).await),
            Code::InvalidArgument,
        ),
    ]);
    assert_codes(&table);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_what_the_plugin_does_not_export_is_unimplemented() {
    let (_host, orchestrator) = serving().await;
    let mut controller = orchestrator.clients().controller;
    let publish = ControllerPublishVolumeRequest {
        volume_id: "a".to_owned(),
        node_id: "b".to_owned(),
        volume_capability: Some(requests::capability()),
        ..ControllerPublishVolumeRequest::default()
    };
    let snapshot = CreateSnapshotRequest {
        source_volume_id: "a".to_owned(),
        name: "b".to_owned(),
        ..CreateSnapshotRequest::default()
    };
    let list = ListVolumesRequest::default();
    let no = Code::Unimplemented;
    assert_codes(&[
        (
            "controller publish",
            code(&controller.controller_publish_volume(publish).await),
            no,
        ),
        (
            "create snapshot",
            code(&controller.create_snapshot(snapshot).await),
            no,
        ),
        (
            "list volumes",
            code(&controller.list_volumes(list).await),
            no,
        ),
    ]);
}
