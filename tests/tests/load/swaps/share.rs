//! A new version serves a share of the volumes, under load: each volume has one version, and no call is lost.

use crate::swaps::lives::Lives;
use crate::swaps::scene::{DRIVER, Scene, append};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::sleep;
use tonic::Code;
use wasmount_control::messages::{Done, Phase, Plugin, Share, Swap};
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

/// Lives until each version has met many volumes.
const LIVES: usize = 60;
/// Volumes that outlive a kill of the host.
const KEPT: usize = 30;
/// Creations beside a version that fails.
const CREATIONS: usize = 60;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Has it serve a share by this component, or by that of the share that there is.
async fn share(scene: &Scene, plugin: Option<&Plugin>, percent: u8) -> Done {
    let swap = Swap {
        plugin: plugin.cloned(),
        share: Some(Share {
            percent,
            promote_after_seconds: None,
        }),
        ..Swap::default()
    };
    scene.client.swap(DRIVER, &swap).await.unwrap()
}

/// The versions that answered the changes of each volume, by the log of the host from here on.
fn versions(scene: &Scene, from: usize) -> BTreeMap<String, BTreeSet<String>> {
    let log = scene.host.log();
    let mut versions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for line in log[from..]
        .lines()
        .filter(|it| it.contains("call answered"))
    {
        if let (Some(volume), Some(version)) = (field(line, "volume"), field(line, "version")) {
            versions.entry(volume).or_default().insert(version);
        }
    }
    versions
}

fn field(line: &str, name: &str) -> Option<String> {
    let (_, value) = line.split_once(&format!(" {name}="))?;
    let end = value.find([' ', '}'])?;
    Some(value[..end].trim_matches('"').to_owned())
}

/// Each volume has one version, and all these have volumes.
fn assert_one_each(versions: &BTreeMap<String, BTreeSet<String>>, all: &[&str]) {
    let several: Vec<_> = versions.iter().filter(|(_, it)| it.len() != 1).collect();
    assert!(several.is_empty(), "{several:?}");
    let seen: BTreeSet<_> = versions.values().flatten().map(String::as_str).collect();
    assert_eq!(seen, all.iter().copied().collect());
}

async fn some_lives(scene: &Scene, name: &str) {
    let mut lives = Lives::begin(&scene.host, name).await;
    while lives.whole() < LIVES {
        lives.assert_none_failed();
        sleep(LOOK).await;
    }
    lives.end().await;
}

#[tokio::test]
async fn privileged_a_share_gives_each_volume_one_version() {
    let scene = Scene::with("").await;
    let new = scene.build("directory", "new");
    let mut lives = Lives::begin(&scene.host, "beside").await;
    let done = share(&scene, Some(&new), 50).await;
    assert!(done.said.contains("50 % of the volumes"), "{}", done.said);
    lives.assert_none_failed();
    let from = scene.host.log().len();
    some_lives(&scene, "half").await;
    let mut half = versions(&scene, from);
    half.retain(|volume, _| volume.starts_with("half"));
    assert!(half.len() >= LIVES, "{}", half.len());
    assert_one_each(&half, &["1", "2"]);
    let status = scene.status().await.status;
    assert_eq!(status.version.unwrap().number, 1);
    assert_eq!(status.share.unwrap().percent, 50);

    let promoted = share(&scene, None, 100).await;
    assert!(promoted.changed, "{}", promoted.said);
    let from = scene.host.log().len();
    some_lives(&scene, "all").await;
    let mut all = versions(&scene, from);
    all.retain(|volume, _| volume.starts_with("all"));
    assert_one_each(&all, &["2"]);
    // From before the share to after the promotion no call has failed.
    assert!(lives.end().await > 0);
    let status = scene.status().await.status;
    assert_eq!((status.version.unwrap().number, status.share), (2, None));
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_a_killed_host_keeps_each_volume_with_its_version() {
    let mut scene = Scene::with("").await;
    let new = scene.build("directory", "new");
    share(&scene, Some(&new), 50).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let from = scene.host.log().len();
    let mut ids = Vec::new();
    for number in 0..KEPT {
        let request = requests::create(&format!("kept-{number}"), 1 << 20);
        let (id, _) = orchestrator.create(request).await.unwrap();
        let volume = orchestrator.place(&id, id.clone()).unwrap();
        orchestrator.stage(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
        ids.push(id);
    }
    assert_one_each(&versions(&scene, from), &["1", "2"]);
    scene.host.kill_9().unwrap();
    scene.host.restart().unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    for id in &ids {
        orchestrator.delete(id).await.unwrap();
    }
    // Those of both processes together.
    assert_one_each(&versions(&scene, from), &["1", "2"]);
    let status = scene.until("it has its share", |it| it.status.share.is_some());
    let status = status.await.status;
    assert_eq!(status.version.unwrap().number, 1);
    scene.roll_back().await;
    some_lives(&scene, "after").await;
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_a_share_that_traps_ends_and_others_go_on() {
    let scene = Scene::serving(
        "misbehave",
        "  versions: { rollback: { faults: 3, window: 60s } }\n",
    )
    .await;
    scene.client.pause(DRIVER).await.unwrap();
    append(&scene.document, "  settings: { every-call: trap }\n");
    share(&scene, None, 50).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let mut trapped = Vec::new();
    for number in 0..CREATIONS {
        let name = format!("pvc-{number}");
        let created = orchestrator.create(requests::create(&name, 1 << 20)).await;
        match code(&created) {
            Code::Ok => {}
            // A call is lost to the new version alone.
            Code::Internal => trapped.push(name),
            other => panic!("{other:?}: {created:?}"),
        }
    }
    assert!(
        (3..CREATIONS).contains(&trapped.len()),
        "{} trapped",
        trapped.len()
    );
    let back = scene
        .until("the share has ended", |it| it.status.share.is_none())
        .await;
    assert_eq!(back.status.phase, Phase::RolledBack);
    assert_eq!(back.status.version.unwrap().number, 1);
    assert!(back.reason.unwrap().contains("version 2 had 3 faults"));
    for name in trapped {
        let created = orchestrator.create(requests::create(&name, 1 << 20)).await;
        assert_eq!(code(&created), Code::Ok, "{created:?}");
    }
}
