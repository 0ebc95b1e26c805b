//! A version that wants the records in another form, under calls of clients and under kills: no call fails, no record is lost, and after a kill the
//! records are those of the version that serves. Records are written by real calls to plugins/migrant, whose settings choose its version.

use crate::swaps::scene::{DRIVER, Scene};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;
use wasmount_control::messages::{Phase, Rollback, Swap, VersionState};
use wasmount_csi::wire::csi::v1::ListVolumesRequest;
use wasmount_tests::builds;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES};
use wasmount_tests::requests;
use wasmount_tests::seed::seeded;

/// Volumes that the first version makes: some pages of a migration (256 records each).
const VOLUMES: usize = 600;
/// Clients at once.
const AT_ONCE: usize = 8;
/// Entries of a page of ListVolumes.
const PAGE: i32 = 250;
/// Times that the host is killed amid a migration.
const ROUNDS: u32 = 20;

/// Lines of a document whose plugin has this version.
fn schema(version: u32) -> String {
    format!("  settings: {{ schema: \"{version}\" }}\n")
}

async fn serving_version_one() -> Scene {
    Scene::serving("migrant", &schema(1)).await
}

/// Has the document want this version; nothing else of it changes.
fn want(scene: &Scene, from: u32, to: u32) {
    let text = fs::read_to_string(&scene.document).unwrap();
    assert!(text.contains(&schema(from)), "{text}");
    let text = text.replace(&schema(from), &schema(to));
    builds::put(text.as_bytes(), &scene.document).unwrap();
}

/// Makes them, side by side; their ids.
async fn make(scene: &Scene, name: &str, count: usize) -> Vec<String> {
    let mut lanes = JoinSet::new();
    for lane in 0..AT_ONCE {
        let orchestrator = scene.host.orchestrator().await.unwrap();
        let name = name.to_owned();
        lanes.spawn(async move {
            let mut ids = Vec::new();
            for number in (lane..count).step_by(AT_ONCE) {
                let request = requests::create(&format!("{name}-{number}"), VOLUME_BYTES);
                ids.push(orchestrator.create(request).await.unwrap().0);
            }
            ids
        });
    }
    lanes.join_all().await.into_iter().flatten().collect()
}

/// Every volume, and which version made it, as the version that serves reads its records.
async fn origins(orchestrator: &Orchestrator) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut starting_token = String::new();
    loop {
        let request = ListVolumesRequest {
            max_entries: PAGE,
            starting_token,
        };
        let mut controller = orchestrator.clients().controller;
        let page = controller.list_volumes(request).await.unwrap().into_inner();
        for entry in page.entries {
            let mut volume = entry.volume.unwrap();
            let origin = volume.volume_context.remove("origin").unwrap();
            assert_eq!(all.insert(volume.volume_id, origin), None);
        }
        starting_token = page.next_token;
        if starting_token.is_empty() {
            return all;
        }
    }
}

/// All of these volumes are there, made by version 1, and no other is.
async fn assert_all_of_version_one(scene: &Scene, ids: &[String]) {
    let found = origins(&scene.host.orchestrator().await.unwrap()).await;
    assert_eq!(found.len(), ids.len());
    for id in ids {
        assert_eq!(found.get(id).map(String::as_str), Some("1.0.0"), "{id}");
    }
}

/// Clients that create, look up and delete volumes until they are stopped. A call that fails is a panic.
struct Load {
    lanes: JoinSet<()>,
    stop: Arc<AtomicBool>,
    lives: Arc<AtomicUsize>,
}

impl Load {
    async fn begin(scene: &Scene) -> Self {
        let mut load = Self {
            lanes: JoinSet::new(),
            stop: Arc::default(),
            lives: Arc::default(),
        };
        for lane in 0..AT_ONCE {
            let orchestrator = scene.host.orchestrator().await.unwrap();
            let (stop, lives) = (load.stop.clone(), load.lives.clone());
            load.lanes.spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::SeqCst) {
                    let name = format!("load-{lane}-{number}");
                    let request = requests::create(&name, VOLUME_BYTES);
                    let (id, _) = orchestrator.create(request).await.unwrap();
                    orchestrator.is_known(&id).await.unwrap();
                    orchestrator.delete(&id).await.unwrap();
                    lives.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                }
            });
        }
        load.goes_on().await;
        load
    }

    /// Waits until each client may have had its turn.
    async fn goes_on(&self) {
        let before = self.lives.load(Ordering::SeqCst);
        while self.lives.load(Ordering::SeqCst) < before + AT_ONCE {
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.lanes.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test]
async fn privileged_rewriting_migrations_under_load_fail_no_call() {
    let mut scene = serving_version_one().await;
    let ids = make(&scene, "pvc", VOLUMES).await;
    let load = Load::begin(&scene).await;
    want(&scene, 1, 3);
    let done = scene.swap_to_document().await;
    let version = done.version.unwrap();
    assert_eq!(version.number, 2, "{}", done.said);
    load.goes_on().await;
    load.end().await;
    assert_all_of_version_one(&scene, &ids).await;

    // The load has written since.
    let refused = scene.client.rollback(DRIVER, &Rollback::default()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("cannot read what was written since version 2 took its records over"),
        "{refused}"
    );
    let status = scene.status().await;
    assert_eq!(status.status.version.unwrap().number, 2);
    assert_eq!((status.status.phase, status.faults), (Phase::Serving, 0));
    let newer = make(&scene, "newer", 1).await;
    scene.host.kill_9().unwrap();
    scene.host.restart().unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let found = origins(&orchestrator).await;
    assert_eq!(found.len(), ids.len() + 1);
    assert_eq!(found.get(&newer[0]).map(String::as_str), Some("3.0.0"));
    let status = scene
        .until("it serves", |it| it.status.version.is_some())
        .await;
    assert_eq!(status.status.version.unwrap().number, 2);
}

#[tokio::test]
async fn privileged_additive_migrations_under_load_allow_rollback() {
    let scene = serving_version_one().await;
    let ids = make(&scene, "pvc", VOLUMES).await;
    let load = Load::begin(&scene).await;
    want(&scene, 1, 2);
    let done = scene.swap_to_document().await;
    assert_eq!(done.version.unwrap().number, 2, "{}", done.said);
    load.goes_on().await;
    let done = scene.roll_back().await;
    assert_eq!(done.version.unwrap().number, 1, "{}", done.said);
    load.goes_on().await;
    load.end().await;
    assert_all_of_version_one(&scene, &ids).await;
}

#[tokio::test]
async fn privileged_the_earlier_version_serves_later_records() {
    let scene = serving_version_one().await;
    want(&scene, 1, 2);
    scene.swap_to_document().await;
    let made = make(&scene, "newer", 1).await;
    assert_eq!(scene.roll_back().await.version.unwrap().number, 1);
    // A client that did not get the answer calls again.
    assert_eq!(make(&scene, "newer", 1).await, made);
    assert_all_of_version_one(&scene, &made).await;
    // And what it did not read was not lost.
    scene.swap_to_document().await;
    let found = origins(&scene.host.orchestrator().await.unwrap()).await;
    assert_eq!(found.get(&made[0]).map(String::as_str), Some("2.0.0"));
}

#[tokio::test]
async fn privileged_an_unwritten_migration_rolls_back() {
    let mut scene = serving_version_one().await;
    let ids = make(&scene, "pvc", VOLUMES).await;
    want(&scene, 1, 3);
    assert_eq!(scene.swap_to_document().await.version.unwrap().number, 2);
    assert_all_of_version_one(&scene, &ids).await;
    let done = scene.roll_back().await;
    assert_eq!(done.version.unwrap().number, 1, "{}", done.said);
    assert_all_of_version_one(&scene, &ids).await;
    scene.host.kill_9().unwrap();
    scene.host.restart().unwrap();
    assert_all_of_version_one(&scene, &ids).await;
    // The first version writes again, and what it wrote goes forward too.
    let more = make(&scene, "more", 1).await;
    let done = scene.swap_to_document().await;
    assert_eq!(done.version.unwrap().number, 3, "{}", done.said);
    let all: Vec<String> = ids.into_iter().chain(more).collect();
    assert_all_of_version_one(&scene, &all).await;
}

#[tokio::test]
async fn privileged_kill_9_amid_a_migration_leaves_one_version() {
    let mut scene = serving_version_one().await;
    let ids = make(&scene, "pvc", VOLUMES).await;
    // What serves after a restart is what is looked at, and not what the host makes of the document then.
    scene.client.pause(DRIVER).await.unwrap();
    want(&scene, 1, 3);
    let began = Instant::now();
    let whole_number = scene.swap_to_document().await.version.unwrap().number;
    let whole = began.elapsed();
    assert_eq!(whole_number, 2);
    assert_eq!(scene.roll_back().await.version.unwrap().number, 1);
    // The kills come closer and closer to the moment that decides, however busy the machine is.
    let (mut low, mut high) = (Duration::ZERO, whole * 2);
    let (mut last, mut random) = (None, seeded().unwrap());
    for round in 0..=ROUNDS {
        let client = scene.client.clone();
        let swap = tokio::spawn(async move { client.swap(DRIVER, &Swap::default()).await });
        let after = low + high.saturating_sub(low).mul_f64(random.f64());
        // The last one is killed when the swap was answered.
        let done = if round == ROUNDS {
            Some(swap.await.unwrap().unwrap().version.unwrap().number)
        } else {
            sleep(after).await;
            swap.abort();
            None
        };
        scene.host.kill_9().unwrap();
        scene.host.restart().unwrap();
        // It answers clients before it answers administrators.
        scene.host.orchestrator().await.unwrap();
        let status = scene
            .until("it serves", |it| {
                it.status.version.is_some() && it.status.phase != Phase::Loading
            })
            .await;
        let number = status.status.version.unwrap().number;
        assert!(done.is_none_or(|done| done == number), "{number} {done:?}");
        // Only the version whose records they are can read them.
        assert_all_of_version_one(&scene, &ids).await;
        let serving = scene.history().await.versions;
        let serving = serving
            .iter()
            .filter(|it| it.state == VersionState::Serving);
        assert_eq!(serving.count(), 1);
        match number {
            1 => low = (low + after) / 2,
            _ => high = (high + after) / 2,
        }
        last = Some(number);
        if number != 1 {
            // Nothing was written since, whenever it was killed.
            assert_eq!(scene.roll_back().await.version.unwrap().number, 1);
            assert_all_of_version_one(&scene, &ids).await;
        }
    }
    assert_ne!(last, Some(1), "what was answered is kept");
}
