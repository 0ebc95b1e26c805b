//! Files that an administrator replaces under a running host.

use crate::admin::refusals::remembered;
use crate::admin::scene::{DRIVER, Scene};
use std::fs;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use wasmount_tests::builds::{build_of, put, put_in_pieces};
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;
use wasmount_tests::small_disk::SmallDisk;

/// How long a file is replaced, again and again.
const RESTLESS: Duration = Duration::from_secs(5);
/// Between two replacements: ten a second.
const PAUSE: Duration = Duration::from_millis(100);
/// A small data directory, in bytes: the store keeps 16 MiB in reserve, and compiled plugins need some.
const DATA_BYTES: u64 = 128 << 20;

/// Whole lives of volumes go on while `change` is done again and again.
async fn under_load(scene: &Scene, change: impl Fn(usize)) {
    let orchestrator = scene.orchestrator().await;
    let calling = async {
        let end = Instant::now() + RESTLESS + Duration::from_secs(1);
        let mut calls = 0;
        while Instant::now() < end {
            let request = requests::create(&format!("pvc-{calls}"), VOLUME_BYTES);
            let (id, _) = orchestrator.create(request).await.unwrap();
            orchestrator.delete(&id).await.unwrap();
            calls += 1;
        }
        calls
    };
    let changing = async {
        let end = Instant::now() + RESTLESS;
        let mut times = 0;
        while Instant::now() < end {
            change(times);
            times += 1;
            sleep(PAUSE).await;
        }
    };
    let (calls, ()) = tokio::join!(calling, changing);
    assert!(calls > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_file_replaced_under_load_fails_no_call() {
    let scene = Scene::start();
    let builds: Vec<_> = ["a", "b", "c"]
        .map(|mark| build_of("directory", mark).unwrap())
        .into();
    under_load(&scene, |times| {
        put(&builds[times % builds.len()], &scene.component).unwrap();
    })
    .await;
    let last = scene.build("last");
    let digest = scene.digest(&last);
    scene.replace("last");
    scene.until("the last serves", |driver| {
        driver["phase"] == "serving" && driver["version"]["digest"] == digest
    });
    // The same bytes are the same version: nothing is left to do.
    let said = scene.done(&["swap", DRIVER, "--file", last.to_str().unwrap()]);
    assert!(said.contains("serves already"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_file_written_in_place_is_never_served_in_part() {
    let scene = Scene::start();
    let builds: Vec<_> = ["a", "b"]
        .map(|mark| build_of("directory", mark).unwrap())
        .into();
    under_load(&scene, |times| {
        put_in_pieces(&builds[times % builds.len()], &scene.component, 50).unwrap();
    })
    .await;
    put_in_pieces(
        &build_of("directory", "last").unwrap(),
        &scene.component,
        50,
    )
    .unwrap();
    let digest = scene.digest(&scene.component);
    scene.until("the last serves", |driver| {
        driver["refused"].is_null() && driver["version"]["digest"] == digest
    });
    assert_eq!(scene.status()["faults"], 0);
    // A part of a component would be refused for what it is.
    for refusal in remembered(&scene) {
        let of_parts = ["not_a_component", "compile", "digest"];
        let kind = refusal["kind"].as_str().unwrap();
        assert!(!of_parts.contains(&kind), "{refusal:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_file_is_rejected_until_it_is_a_component() {
    let scene = Scene::start();
    fs::write(&scene.component, "no component").unwrap();
    let status = scene.until("it is refused", |driver| driver["refused"].is_object());
    assert_eq!(status["refused"]["kind"], "not_a_component");
    assert_eq!(status["version"]["number"], 1);
    let orchestrator = scene.orchestrator().await;
    orchestrator.capacity().await.unwrap();
    fs::remove_file(&scene.component).unwrap();
    scene.until("it is gone", |driver| driver["refused"]["kind"] == "source");
    scene.replace("two");
    let status = scene.serves(2);
    assert!(status["refused"].is_null(), "{status:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_full_data_directory_rejects_only_new_versions() {
    let mut scene = Scene::start();
    scene.host.terminate().unwrap();
    let disk = SmallDisk::mount(&scene.host.data(), DATA_BYTES).unwrap();
    scene.host.restart().unwrap();
    scene.serves(1);
    disk.fill().unwrap();
    scene.replace("two");
    let status = scene.until("it is refused", |driver| driver["refused"].is_object());
    assert_eq!(status["refused"]["kind"], "disk", "{status:#}");
    assert_eq!(status["version"]["number"], 1);
    scene.orchestrator().await.capacity().await.unwrap();
    disk.free().unwrap();
    scene.done(&["swap", DRIVER]);
    let status = scene.status();
    assert!(status["refused"].is_null(), "{status:#}");
    scene.host.terminate().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_full_data_directory_closes_no_way_back() {
    let mut scene = Scene::start();
    scene.host.terminate().unwrap();
    let disk = SmallDisk::mount(&scene.host.data(), DATA_BYTES).unwrap();
    scene.host.restart().unwrap();
    scene.serves(1);
    scene.replace("two");
    scene.serves(2);
    disk.fill().unwrap();
    scene.done(&["rollback", DRIVER]);
    scene.done(&["pause", DRIVER]);
    let status = scene.status();
    assert_eq!(status["version"]["number"], 1, "{status:#}");
    assert_eq!(status["phase"], "rolledBack", "{status:#}");
    scene.orchestrator().await.capacity().await.unwrap();
    // It was written down.
    scene.host.kill_9().unwrap();
    disk.free().unwrap();
    scene.host.restart().unwrap();
    let status = scene.serves(1);
    assert_eq!(
        (&status["phase"], &status["paused"]),
        (&"rolledBack".into(), &true.into())
    );
    scene.host.terminate().unwrap();
}
