//! Documents that an administrator changes under a running host.

use crate::admin::scene::{DRIVER, Scene};
use std::fs;
use std::path::Path;
use wasmount_tests::host::HostOptions;
use xtask::served::{ServeOptions, Served};

#[tokio::test]
async fn privileged_a_document_that_changes_is_another_version() {
    let scene = Scene::start();
    scene.rewrite(|text| text + "  limits: { concurrency: 7 }\n");
    let status = scene.serves(2);
    assert_eq!(status["refused"], serde_json::Value::Null);
    // Its code is the same, its terms are not.
    let table = scene.done(&["history", DRIVER]);
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[tokio::test]
async fn privileged_an_invalid_document_is_reported_and_ignored() {
    let scene = Scene::start();
    let right = fs::read_to_string(&scene.document).unwrap();
    let said = |part: &'static str| {
        move |driver: &serde_json::Value| {
            let reason = driver["reason"].as_str().unwrap_or_default();
            reason.contains("the document is not applied") && reason.contains(part)
        }
    };
    scene.rewrite(|text| text + "  limist: {}\n");
    let status = scene.until("it is wrong", said("did you mean `limits`?"));
    assert_eq!(status["version"]["number"], 1);
    let error = scene.refused(&["swap", DRIVER]);
    assert!(error.contains("did you mean `limits`?"), "{error}");
    scene.rewrite(|_| right.replace(DRIVER, "renamed.wasmount.io"));
    scene.until("it is renamed", said("a backend keeps its name"));
    assert!(!scene.done(&["status"]).contains("\nrenamed"));
    fs::remove_file(&scene.document).unwrap();
    scene.until("it is gone", said("is gone; restore it"));
    assert!(scene.host.log().contains("is gone"));
    scene.rewrite_with(&right);
    scene.until("it is right again", |driver| driver["reason"].is_null());
    assert_eq!(scene.status()["version"]["number"], 1);
    scene.orchestrator().await.capacity().await.unwrap();
}

#[tokio::test]
async fn privileged_a_waiting_host_serves_the_latest_document() {
    let mut scene = Scene::start();
    let own = |name: &str| {
        let path = scene.host.root().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (run, sockets) = (own("second-run"), own("second-sockets"));
    let options = ServeOptions {
        run,
        sockets,
        log: scene.host.root().join("second.log"),
        ..scene.host.options().clone()
    };
    let mut second = Served::start(&options).unwrap();
    scene.until("another host waits", |_| {
        let log = fs::read_to_string(&options.log).unwrap_or_default();
        log.contains("waiting for the other host")
    });
    let served_from = |component: &Path| {
        let (from, to) = (scene.component.display(), component.display());
        fs::read_to_string(&scene.document)
            .unwrap()
            .replace(&from.to_string(), &to.to_string())
    };
    let (two, three) = (scene.build("two"), scene.build("three"));
    let (of_two, of_three) = (served_from(&two), served_from(&three));
    scene.rewrite_with(&of_two);
    scene.serves(2);
    scene.host.terminate().unwrap();
    // While the other one begins.
    scene.rewrite_with(&of_three);
    second.sockets().unwrap();
    let digest = scene.digest(&three);
    let status = scene.until("the newest is served", |driver| {
        driver["version"]["digest"] == digest.as_str()
    });
    // What the document said when that host was started has never served again.
    assert_eq!(status["version"]["number"], 3);
    assert!(second.process.terminate().unwrap().success());
}

#[tokio::test]
async fn privileged_a_mounter_follows_the_grants_of_its_document() {
    let mut scene = Scene::start_with(HostOptions {
        split: Some(0),
        ..HostOptions::default()
    });
    let orchestrator = scene.orchestrator().await;
    let volume = orchestrator.created("before").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    scene.rewrite(|text| text.replace("pools/", "other/"));
    scene.serves(2);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !scene
        .host
        .log()
        .contains("grants of the document are in effect")
    {
        assert!(std::time::Instant::now() < end, "{}", scene.host.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let after = orchestrator.created("after").await.unwrap();
    let pool = scene.host.mount_data().join("other").join(DRIVER);
    assert!(fs::read_dir(&pool).unwrap().count() > 1, "{pool:?}");
    // What is staged goes by what it was staged from.
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    orchestrator.delete(&after.id).await.unwrap();
    scene.host.terminate().unwrap();
}

#[tokio::test]
async fn privileged_a_secret_changed_while_stopped_makes_a_version() {
    let mut scene = Scene::start();
    let secret = scene.folder.path().join("token");
    fs::write(&secret, "correct-horse").unwrap();
    let line = format!("  secrets: {{ token: {{ file: {secret:?} }} }}\n");
    scene.rewrite(|text| text + &line);
    scene.serves(2);
    scene.host.terminate().unwrap();
    scene.host.restart().unwrap();
    // The same secret is the same version, also to a swap that looks again.
    scene.serves(2);
    let said = scene.done(&["swap", DRIVER]);
    assert!(said.contains("version 2"), "{said}");
    scene.host.terminate().unwrap();
    fs::write(&secret, "battery-staple").unwrap();
    scene.host.restart().unwrap();
    scene.serves(3);
    let kept = scene.host.data().join("versions").join(DRIVER);
    for entry in fs::read_dir(kept).unwrap() {
        let content = fs::read(entry.unwrap().path()).unwrap();
        let content = String::from_utf8_lossy(&content);
        assert!(!content.contains("correct-horse") && !content.contains("battery-staple"));
    }
}
