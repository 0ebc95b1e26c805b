//! Swaps, rollbacks, pauses and histories by hand.

use crate::admin::scene::{DRIVER, Scene};
use serde_json::Value;
use std::thread;

/// Administrators at once.
const ADMINS: usize = 4;
/// Swaps of each.
const SWAPS: usize = 10;

fn history(scene: &Scene) -> Vec<Value> {
    let said = scene.done(&["history", DRIVER, "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    said["versions"].as_array().unwrap().clone()
}

/// Changes the document twice, the second time after the host has seen the first. Each change makes a version at once, of the same component: a host
/// that follows them uses two numbers.
fn change_twice(scene: &Scene) {
    let seen = || scene.host.log().matches("document changed").count();
    scene.rewrite(|text| text + "  limits: { concurrency: 7 }\n");
    scene.until("the first change is seen", |_| seen() == 1);
    scene.rewrite(|text| text.replace("concurrency: 7", "concurrency: 8"));
    scene.until("the second change is seen", |_| seen() == 2);
}

#[tokio::test]
async fn privileged_swap_and_rollback_survive_a_restart() {
    let mut scene = Scene::start();
    let first = scene.status()["version"]["digest"].clone();
    scene.replace("two");
    let second = scene.serves(2)["version"]["digest"].clone();
    assert_ne!(first, second);
    let said = scene.done(&["rollback", DRIVER]);
    assert!(said.contains("serves in place of version 2"), "{said}");
    let status = scene.status();
    assert_eq!(status["version"]["digest"], first);
    assert_eq!(status["phase"], "rolledBack");
    assert!(
        status["reason"]
            .as_str()
            .unwrap()
            .contains("`wasmount swap` ends the hold")
    );
    let log = scene.host.log();
    for change in [
        "from=1 to=2 trigger=\"document\"",
        "from=2 to=1 trigger=\"rollback command\"",
    ] {
        let lines = log.lines().filter(|line| line.contains(change));
        let lines: Vec<_> = lines.collect();
        assert!(
            matches!(lines[..], [line] if line.contains("the backend serves")),
            "{change}: {log}"
        );
    }
    scene.host.kill_9().unwrap();
    scene.host.restart().unwrap();
    let status = scene.until("it serves again", |driver| driver["version"].is_object());
    assert_eq!(
        (&status["version"]["digest"], &status["phase"]),
        (&first, &"rolledBack".into())
    );
    scene.done(&["swap", DRIVER]);
    assert_eq!(scene.status()["version"]["digest"], second);
    assert_eq!(scene.status()["phase"], "serving");
    let states: Vec<_> = history(&scene)
        .iter()
        .map(|it| it["state"].clone())
        .collect();
    assert_eq!(states[0], "serving", "{states:?}");
    let table = scene.done(&["history", DRIVER]);
    assert!(table.starts_with("VERSION"), "{table}");
}

#[tokio::test]
async fn privileged_a_rejected_swap_changes_nothing() {
    let scene = Scene::start();
    let before = scene.status()["version"].clone();
    let bad = scene.folder.path().join("bad.wasm");
    std::fs::write(&bad, "no component").unwrap();
    let error = scene.refused(&["swap", DRIVER, "--file", bad.to_str().unwrap()]);
    assert!(error.contains("is not WebAssembly"), "{error}");
    assert!(error.contains("(not_a_component)"), "{error}");
    let missing = scene.folder.path().join("missing.wasm");
    let error = scene.refused(&["swap", DRIVER, "--file", missing.to_str().unwrap()]);
    assert!(error.contains("cannot be read"), "{error}");
    let error = scene.refused(&["rollback", DRIVER, "--to", "7"]);
    assert!(error.contains("version 7 is not kept"), "{error}");
    let error = scene.refused(&["rollback", DRIVER]);
    assert!(error.contains("no earlier version"), "{error}");
    assert_eq!(scene.status()["version"], before);
    assert_eq!(scene.status()["notReady"], Value::Null);
    let (code, output) = (
        scene.wasmount(&["swap", DRIVER, "--reference", "x"]).code,
        "",
    );
    assert_eq!(code, Some(64), "{output}");
}

#[tokio::test]
async fn privileged_another_build_is_tried_until_a_swap_without_it() {
    let scene = Scene::start();
    let other = scene.build("other");
    let said = scene.done(&["swap", DRIVER, "--file", other.to_str().unwrap()]);
    assert!(said.contains("version 2"), "{said}");
    // What the document says has changed, and does not count meanwhile.
    change_twice(&scene);
    assert_eq!(scene.status()["version"]["number"], 2);
    scene.done(&["swap", DRIVER]);
    let status = scene.serves(3);
    assert_eq!(
        status["version"]["origin"],
        scene.component.to_str().unwrap()
    );
}

#[tokio::test]
async fn privileged_a_pause_keeps_what_serves_until_resume() {
    let scene = Scene::start();
    scene.done(&["pause", DRIVER]);
    change_twice(&scene);
    let status = scene.status();
    assert_eq!(
        (&status["version"]["number"], &status["phase"]),
        (&1.into(), &"paused".into())
    );
    scene.done(&["resume", DRIVER]);
    scene.serves(2);
}

#[tokio::test]
async fn privileged_concurrent_administrators_leave_one_version() {
    let scene = Scene::start();
    let builds: Vec<_> = (0..ADMINS)
        .map(|it| scene.build(&format!("b{it}")))
        .collect();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let admins = builds.iter().map(|build| {
            let scene = &scene;
            scope.spawn(move || {
                let swap = |_| scene.wasmount(&["swap", DRIVER, "--file", build.to_str().unwrap()]);
                (0..SWAPS).map(swap).collect::<Vec<_>>()
            })
        });
        let admins: Vec<_> = admins.collect();
        admins
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    // Each gets its outcome: the version serves, or another one came first.
    for said in &outcomes {
        let is_known = said.code == Some(0) || said.error.contains("meanwhile");
        assert!(is_known, "{said:?}");
    }
    assert!(outcomes.iter().any(|said| said.code == Some(0)));
    let status = scene.status();
    let origin = status["version"]["origin"].as_str().unwrap();
    assert!(
        builds.iter().any(|build| build.to_str() == Some(origin)),
        "{origin}"
    );
    let serving = history(&scene);
    let serving = serving.iter().filter(|it| it["state"] == "serving").count();
    assert_eq!(serving, 1);
    scene.orchestrator().await.has_plugin().await.unwrap();
}
