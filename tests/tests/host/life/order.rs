//! Calls at the wrong time or for the wrong place: refused, or already done; and what is in use stays.

use crate::life::{assert_codes, assert_nothing_left, serving};
use std::fs;
use std::os::unix::fs::symlink;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

#[tokio::test]
async fn privileged_calls_out_of_order_are_refused_or_already_done() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    let other = orchestrator.created("other").await.unwrap();
    let mut table = vec![
        (
            "publish before stage",
            code(&orchestrator.publish(&volume).await),
            Code::FailedPrecondition,
        ),
        (
            "unstage what was never staged",
            code(&orchestrator.unstage(&volume).await),
            Code::Ok,
        ),
        (
            "unpublish what was never published",
            code(&orchestrator.unpublish(&volume).await),
            Code::Ok,
        ),
        (
            "unstage an unknown volume",
            code(&orchestrator.unstage_at("unknown", &volume.staging).await),
            Code::Ok,
        ),
        (
            "unpublish an unknown volume",
            code(&orchestrator.unpublish_at("unknown", &volume.target).await),
            Code::Ok,
        ),
        (
            "delete an unknown volume",
            code(&orchestrator.delete("unknown").await),
            Code::Ok,
        ),
    ];
    orchestrator.stage(&volume).await.unwrap();
    let mut another_mode = requests::stage(&volume.id, &volume.staging);
    another_mode.volume_capability = Some(requests::mounted(Mode::SingleNodeReaderOnly, &[]));
    let elsewhere = requests::stage(&volume.id, &other.staging);
    let onto_it = requests::stage(&other.id, &volume.staging);
    let from_elsewhere = requests::publish(&volume.id, &other.staging, &volume.target);
    table.extend([
        (
            "stage in another mode",
            code(&orchestrator.stage_as(another_mode).await),
            Code::AlreadyExists,
        ),
        (
            "stage at another path",
            code(&orchestrator.stage_as(elsewhere).await),
            Code::AlreadyExists,
        ),
        (
            "stage another volume onto it",
            code(&orchestrator.stage_as(onto_it).await),
            Code::AlreadyExists,
        ),
        (
            "unstage by another volume",
            code(&orchestrator.unstage_at(&other.id, &volume.staging).await),
            Code::FailedPrecondition,
        ),
        (
            "publish from another staging path",
            code(&orchestrator.publish_as(from_elsewhere).await),
            Code::FailedPrecondition,
        ),
        (
            "delete while staged",
            code(&orchestrator.delete(&volume.id).await),
            Code::FailedPrecondition,
        ),
    ]);
    orchestrator.publish(&volume).await.unwrap();
    volume.write("kept").unwrap();
    table.extend([
        (
            "unstage while published",
            code(&orchestrator.unstage(&volume).await),
            Code::FailedPrecondition,
        ),
        (
            "unpublish by another volume",
            code(&orchestrator.unpublish_at(&other.id, &volume.target).await),
            Code::FailedPrecondition,
        ),
        (
            "delete while published",
            code(&orchestrator.delete(&volume.id).await),
            Code::FailedPrecondition,
        ),
    ]);
    assert_codes(&table);
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    orchestrator.tear_down(&other).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_path_with_traversal_is_rejected_by_every_call() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    let outside = host.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let kubelet = host.kubelet();
    let link = kubelet.join("link");
    symlink(&outside, &link).unwrap();
    fs::create_dir(outside.join("below")).unwrap();
    let long = kubelet.join("x".repeat(256)).join("mount");
    let refused = Code::InvalidArgument;
    for path in [
        outside.clone(),
        kubelet.clone(),
        kubelet.join("../outside/below"),
        kubelet.join("./mount"),
        link.clone(),
        link.join("below"),
        "relative/mount".into(),
        "/".into(),
        long,
        "/etc".into(),
    ] {
        let fresh = orchestrator.created("fresh").await.unwrap();
        let id = volume.id.as_str();
        let stage = requests::stage(&fresh.id, &path);
        let publish = requests::publish(id, &volume.staging, &path);
        let codes = [
            code(&orchestrator.stage_as(stage).await),
            code(&orchestrator.publish_as(publish).await),
            code(&orchestrator.unpublish_at(id, &path).await),
            code(&orchestrator.unstage_at(id, &path).await),
        ];
        assert_eq!(codes, [refused; 4], "{}", path.display());
    }
    assert!(outside.join("below").is_dir() && link.is_symlink());
    assert_eq!(host.mounts().unwrap(), [volume.staging.as_path()]);
    fs::remove_file(link).unwrap();
    let fresh = orchestrator.created("fresh").await.unwrap();
    orchestrator.tear_down(&fresh).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}
