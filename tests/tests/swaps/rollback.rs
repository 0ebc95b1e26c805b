//! A version that passes admission and is bad all the same, and an administrator who goes back by hand.

use crate::lives::Lives;
use crate::scene::{DRIVER, Scene};
use std::time::Duration;
use tokio::time::sleep;
use tonic::Code;
use wasmount_control::words::{Phase, Swap};
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::builds;
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;

/// A version that traps in every CreateVolume is taken back after so many.
const FAULTS: &str = "  versions: { rollback: { faults: 3, window: 30s } }\n";

/// A volume whose creation traps in the plugin that does every bad thing; the good one does not know the parameter.
fn trapping(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: [("behaviour".to_owned(), "trap".to_owned())].into(),
        ..requests::create(name, 1 << 20)
    }
}

#[tokio::test]
async fn privileged_a_version_that_traps_is_taken_back_and_stays_so_after_a_restart() {
    let mut scene = Scene::with(FAULTS).await;
    let good = scene.status().await.version.unwrap();
    // It exports more than the one before, but for one feature.
    let bad = scene.build("misbehave", "bad");
    let swap = Swap {
        allow_service_change: true,
        plugin: Some(bad),
    };
    let done = scene.client.swap(DRIVER, &swap).await.unwrap();
    assert_eq!(done.version.unwrap().number, good.number + 1);

    let orchestrator = scene.host.orchestrator().await.unwrap();
    let mut traps = 0;
    for number in 0..20 {
        let created = orchestrator
            .create(trapping(&format!("pvc-{number}")))
            .await;
        match code(&created) {
            Code::Internal => traps += 1,
            Code::InvalidArgument => break,
            other => panic!("{other:?}: {created:?}"),
        }
    }
    // Calls that come while it is taken back trap too.
    assert!((3..20).contains(&traps), "{traps}");
    let back = scene
        .until("the good one serves", |it| it.phase == Phase::RolledBack)
        .await;
    let version = back.version.unwrap();
    assert_eq!(version.digest, good.digest);
    let reason = back.reason.unwrap();
    assert!(
        reason.contains("3 faults") && reason.contains("trapped"),
        "{reason}"
    );
    let history = scene.history().await.versions;
    assert!(
        history.iter().any(|it| it.state == "rolledBack"),
        "{history:#?}"
    );

    scene.host.terminate().unwrap();
    scene.host.restart().unwrap();
    scene.host.orchestrator().await.unwrap();
    let after = scene.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(after.phase, Phase::RolledBack);
    assert_eq!(after.version.unwrap().digest, good.digest);
    let lives = Lives::begin(&scene.host, "after").await;
    sleep(Duration::from_millis(300)).await;
    assert!(lives.end().await > 0);
}

#[tokio::test]
async fn privileged_an_administrator_goes_back_in_one_command_though_the_file_is_gone() {
    let mut scene = Scene::with("").await;
    let first = scene.status().await.version.unwrap();
    let build = builds::build_of("directory", "second").unwrap();
    builds::put(&build, &scene.component).unwrap();
    let second = scene
        .until("the second serves", |it| {
            it.version
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
    let after = scene.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(after.version.unwrap().digest, first.digest);
    assert_ne!(second.version.unwrap().digest, first.digest);
    // The file comes back, and with `swap` the hold ends.
    builds::put(&build, &scene.component).unwrap();
    let done = scene.swap_to_document().await;
    assert_ne!(done.version.unwrap().digest, first.digest);
    assert_eq!(scene.status().await.phase, Phase::Serving);
    scene.nothing_is_left();
}
