//! Drivers that are taken off a running host.

use crate::scene::{DRIVER, Scene};
use std::fs;
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_driver_with_volumes_in_use_stays_and_they_are_named() {
    let scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    let error = scene.refused(&["delete", DRIVER]);
    assert!(error.contains("1 volume in use"), "{error}");
    assert!(error.contains(&volume.id), "{error}");
    // All stays as it was.
    let request = requests::create("more", VOLUME_BYTES);
    let (more, _) = orchestrator.create(request).await.unwrap();
    orchestrator.delete(&more).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    let said = scene.done(&["delete", DRIVER]);
    assert!(said.contains("is served no more"), "{said}");
    assert!(scene.status().is_null());
    assert!(!scene.host.socket().exists());
    assert_eq!(scene.done(&["status"]), "no driver is served\n");
    assert!(
        scene
            .refused(&["delete", DRIVER])
            .contains("those that are: none")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_forced_deletion_leaves_mounts_to_the_next_host() {
    let mut scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    scene.done(&["delete", DRIVER, "--force"]);
    assert!(!scene.host.socket().exists());
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    scene.host.terminate().unwrap();
    scene.host.restart().unwrap();
    scene.serves(1);
    let orchestrator = scene.orchestrator().await;
    orchestrator.tear_down(&volume).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_driver_that_was_deleted_comes_back_when_its_document_changes() {
    let scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let (id, _) = orchestrator
        .create(requests::create("pvc", VOLUME_BYTES))
        .await
        .unwrap();
    scene.done(&["delete", DRIVER]);
    let text = fs::read_to_string(&scene.document).unwrap();
    scene.rewrite_with(&text);
    scene.until("it is back", |driver| driver["phase"] == "serving");
    // With all that it had.
    let orchestrator = scene.orchestrator().await;
    orchestrator.is_known(&id).await.unwrap();
    orchestrator.delete(&id).await.unwrap();
}
