//! Changes by class (VolumeAttributesClass): all or nothing, kept, and there at the next attachment.

use crate::conformance::attach::{attach, detach};
use crate::conformance::driver::{Driver, options_at};
use std::collections::BTreeMap;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::{ControllerModifyVolumeRequest, CreateVolumeRequest};
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{Volume, code};

const KIND: Kind = Kind::Filesystem("ext4");

fn map(parameters: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    parameters.iter().map(owned).collect()
}

async fn modify(driver: &Driver, id: &str, parameters: &[(&str, &str)]) -> Result<(), Status> {
    let request = ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        mutable_parameters: map(parameters),
        ..ControllerModifyVolumeRequest::default()
    };
    driver
        .clients()
        .controller
        .controller_modify_volume(request)
        .await
        .map(drop)
}

/// Attaches, and gives the options of the mount that the pod sees.
async fn options(driver: &Driver, volume: &Volume) -> Vec<String> {
    let orchestrator = &driver.orchestrator;
    let context = attach(driver, &volume.id, false).await.unwrap();
    let mut stage = KIND.stage(volume);
    stage.publish_context.clone_from(&context);
    orchestrator.stage_as(stage).await.unwrap();
    let mut publish = KIND.publish(volume, &volume.target);
    publish.publish_context = context;
    orchestrator.publish_as(publish).await.unwrap();
    let options = options_at(&volume.target);
    orchestrator.unpublish(volume).await.unwrap();
    orchestrator.unstage(volume).await.unwrap();
    detach(driver, &volume.id, "").await.unwrap();
    options
}

/// Which of the options that a class can choose are on.
async fn chosen(driver: &Driver, volume: &Volume) -> Vec<String> {
    let options = options(driver, volume).await.into_iter();
    options
        .filter(|it| ["noatime", "discard"].contains(&it.as_str()))
        .collect()
}

#[tokio::test]
async fn privileged_a_changed_volume_class_reaches_the_next_pod() {
    let mut driver = Driver::serving().await;
    let volume = KIND.created(&driver.orchestrator, "pvc").await.unwrap();
    assert!(chosen(&driver, &volume).await.is_empty());
    modify(&driver, &volume.id, &[("atime", "false")])
        .await
        .unwrap();
    assert_eq!(chosen(&driver, &volume).await, ["noatime"]);
    // What is not named stays as it is.
    for _ in 0..2 {
        modify(&driver, &volume.id, &[("discard", "true")])
            .await
            .unwrap();
        assert_eq!(chosen(&driver, &volume).await, ["noatime", "discard"]);
    }
    for (what, parameters) in [
        ("an unknown name", [("atime", "true"), ("colour", "red")]),
        (
            "a value that is none",
            [("atime", "true"), ("discard", "perhaps")],
        ),
    ] {
        let refused = modify(&driver, &volume.id, &parameters).await;
        assert_eq!(code(&refused), Code::InvalidArgument, "{what}");
    }
    assert_eq!(code(&modify(&driver, "unknown", &[]).await), Code::NotFound);
    driver.kill_and_restart().await;
    assert_eq!(chosen(&driver, &volume).await, ["noatime", "discard"]);
    modify(
        &driver,
        &volume.id,
        &[("atime", "true"), ("discard", "false")],
    )
    .await
    .unwrap();
    assert!(chosen(&driver, &volume).await.is_empty());
    driver.orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_volume_may_begin_with_a_class() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let with = |parameters: &[(&str, &str)]| CreateVolumeRequest {
        mutable_parameters: map(parameters),
        ..KIND.create("pvc")
    };
    let refused = orchestrator.create(with(&[("colour", "red")])).await;
    assert_eq!(code(&refused), Code::InvalidArgument);
    let (id, _) = orchestrator
        .create(with(&[("atime", "false")]))
        .await
        .unwrap();
    let volume = orchestrator.place("pvc", id).unwrap();
    assert_eq!(chosen(&driver, &volume).await, ["noatime"]);
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}
