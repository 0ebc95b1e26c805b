//! A version that passes admission and is bad all the same, and an administrator who goes back by hand.

use crate::swaps::lives::Lives;
use crate::swaps::scene::{DRIVER, Scene};
use std::time::Duration;
use tokio::time::sleep;
use tonic::Code;
use wasmount_control::messages::{DriverReport, Phase, Swap, VersionRecord, VersionState};
use wasmount_tests::builds;
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

/// A version that traps in every call is taken back after so many. Only the plugin that does every bad thing knows the setting.
const TRAPS: &str =
    "  versions: { rollback: { faults: 3, window: 30s } }\n  settings: { every-call: trap }\n";
/// Calls until it must be taken back: those that come while it is are failed by it too.
const CALLS: usize = 100;

/// Swaps to a version that passes admission and then traps in every call, and calls it until the good one answers; how often it trapped.
async fn trapped(scene: &Scene) -> usize {
    // It exports more than the one before, but for one feature.
    let swap = Swap {
        allow_service_change: true,
        plugin: Some(scene.build("misbehave", "bad")),
        ..Swap::default()
    };
    scene.client.swap(DRIVER, &swap).await.unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    for number in 0..CALLS {
        let request = requests::create(&format!("pvc-{number}"), 1 << 20);
        let created = orchestrator.create(request).await;
        match code(&created) {
            Code::Internal => {}
            Code::Ok => return number,
            other => panic!("{other:?}: {created:?}"),
        }
    }
    panic!("{CALLS} calls trapped");
}

fn assert_rolled_back(status: &DriverReport, good: &VersionRecord) {
    assert_eq!(status.status.phase, Phase::RolledBack);
    let version = status.status.version.as_ref().unwrap();
    assert_eq!(version.digest, good.digest);
    let reason = status.reason.as_deref().unwrap();
    assert!(
        reason.contains("had 3 faults") && reason.contains("trapped"),
        "{reason}"
    );
}

#[tokio::test]
async fn privileged_a_version_that_traps_is_rolled_back_for_good() {
    let mut scene = Scene::with(TRAPS).await;
    let good = scene.status().await.status.version.unwrap();
    let lives = Lives::begin(&scene.host, "pvc").await;
    let traps = trapped(&scene).await;
    assert!(traps <= CALLS / 2, "{traps}");
    // Lifecycles under way met the bad version, and no other failure.
    for failed in lives.cut_off().await {
        assert_eq!(failed.status.code(), Code::Internal, "{failed:?}");
        assert!(failed.status.message().contains("trapped"), "{failed:?}");
    }
    let what = "the good one serves";
    let back = scene
        .until(what, |it| it.status.phase == Phase::RolledBack)
        .await;
    assert_rolled_back(&back, &good);
    assert!(back.faults >= 3, "{back:?}");
    let fault = back.last_fault.unwrap();
    assert_eq!(fault.kind, "trapped", "{fault:?}");
    let change = "from=2 to=1 trigger=\"faults\"";
    let log = scene.host.log();
    let mut told = log
        .lines()
        .filter(|line| line.contains("version rolled back"));
    assert!(told.any(|line| line.contains(change)), "{log}");
    let history = scene.history().await.versions;
    assert!(
        history
            .iter()
            .any(|it| it.state == VersionState::RolledBack),
        "{history:#?}"
    );
    // Calls recover without a restart.
    Lives::some(&scene.host, "recovered").await;

    scene.host.terminate().unwrap();
    scene.host.restart().unwrap();
    scene.host.orchestrator().await.unwrap();
    let after = scene
        .until("it serves", |it| it.status.version.is_some())
        .await;
    assert_rolled_back(&after, &good);
    Lives::some(&scene.host, "after").await;
    // Volumes of lives that were cut off.
    scene.host.abandon().unwrap();
}

#[tokio::test]
async fn privileged_a_rollback_works_though_the_file_is_gone() {
    let mut scene = Scene::with("").await;
    let first = scene.status().await.status.version.unwrap();
    let build = builds::build_of("directory", "second").unwrap();
    builds::put(&build, &scene.component).unwrap();
    let second = scene
        .until("the second serves", |it| {
            it.status
                .version
                .as_ref()
                .is_some_and(|it| it.digest != first.digest)
        })
        .await;
    std::fs::remove_file(&scene.component).unwrap();
    let lives = Lives::begin(&scene.host, "pvc").await;
    let done = scene.roll_back().await;
    assert!(done.changed, "{}", done.said);
    assert_eq!(done.version.unwrap().digest, first.digest);
    sleep(Duration::from_millis(200)).await;
    lives.end().await;

    scene.host.kill_9().unwrap();
    scene.host.restart().unwrap();
    scene.host.orchestrator().await.unwrap();
    let after = scene
        .until("it serves", |it| it.status.version.is_some())
        .await;
    assert_eq!(after.status.version.unwrap().digest, first.digest);
    assert_ne!(second.status.version.unwrap().digest, first.digest);
    // The file comes back, and with `swap` the hold ends.
    builds::put(&build, &scene.component).unwrap();
    let done = scene.swap_to_document().await;
    assert_ne!(done.version.unwrap().digest, first.digest);
    assert_eq!(scene.status().await.status.phase, Phase::Serving);
    scene.nothing_is_left();
}
