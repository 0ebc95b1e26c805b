//! Drivers that are taken off a running host.

use crate::admin::scene::{DRIVER, Scene};
use futures::future::join_all;
use std::fs;
use std::time::{Duration, Instant};
use tonic::Code;
use wasmount_control::messages::{Delete, Drain};
use wasmount_control::{Client, ControlError};
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_driver_with_volumes_in_use_names_them() {
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
    assert!(said.contains("is no longer served"), "{said}");
    assert!(scene.status().is_null());
    assert!(!scene.host.socket().exists());
    assert_eq!(scene.done(&["status"]), "no driver is served\n");
    assert!(
        scene
            .refused(&["delete", DRIVER])
            .contains("those that are: none")
    );
}

/// Deletions at the same time, all of which are refused.
const DELETIONS: usize = 4;
/// How long a busy host may take to see a file.
const SEEN: Duration = Duration::from_secs(30);
/// Interval between two looks at the log.
const AGAIN: Duration = Duration::from_millis(50);
/// How often it is tried that something happens while a deletion is refused.
const ROUNDS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_refused_deletion_keeps_later_decisions() {
    let scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    let admin = Client::new(scene.host.data().join("admin.sock"));
    let refused = async || {
        let deletions = (0..DELETIONS).map(|_| admin.delete(DRIVER, &Delete { force: false }));
        for deleted in join_all(deletions).await {
            let refused = deleted.unwrap_err();
            assert!(matches!(refused, ControlError::Refused { .. }), "{refused}");
        }
    };
    let create = || orchestrator.create(requests::create("more", VOLUME_BYTES));
    let drain = Drain {
        reason: Some("new disks".to_owned()),
        patience_seconds: 0,
    };
    for _ in 0..ROUNDS {
        // One deletion sees that another one is under way.
        refused().await;
        create().await.unwrap();
        let ((), drained) = tokio::join!(refused(), admin.drain(DRIVER, &drain));
        drained.unwrap();
        let status = create().await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("new disks"), "{status}");
        let ((), resumed) = tokio::join!(refused(), admin.resume(DRIVER));
        resumed.unwrap();
        create().await.unwrap();
    }
    orchestrator.unstage(&volume).await.unwrap();
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
async fn privileged_a_deleted_driver_returns_with_its_document() {
    let scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let (id, _) = orchestrator
        .create(requests::create("pvc", VOLUME_BYTES))
        .await
        .unwrap();
    let said = scene.done(&["delete", DRIVER]);
    assert!(
        said.contains("returns when that document changes"),
        "{said}"
    );
    let text = fs::read_to_string(&scene.document).unwrap();
    // The same document, written again, is no change; a comment is none either.
    for same in [text.clone(), format!("{text}# the same\n")] {
        scene.rewrite_with(&same);
    }
    let end = Instant::now() + SEEN;
    while !scene.host.log().contains("the driver stays removed") {
        assert!(Instant::now() < end, "{}", scene.host.log());
        std::thread::sleep(AGAIN);
    }
    assert!(scene.status().is_null());
    scene.rewrite_with(&format!("{text}  limits: {{ handles: 999 }}\n"));
    scene.until("it is back", |driver| driver["phase"] == "serving");
    // With all that it had.
    let orchestrator = scene.orchestrator().await;
    orchestrator.is_known(&id).await.unwrap();
    orchestrator.delete(&id).await.unwrap();
}
