//! The host is killed amid swaps. After the restart exactly one of the two versions serves, whole.

use crate::swaps::lives::{Failed, Lives};
use crate::swaps::scene::DRIVER;
use crate::swaps::scene::Scene;
use std::time::Duration;
use tokio::time::sleep;
use tonic::Code;
use wasmount_control::messages::{Phase, Swap, VersionState};
use wasmount_tests::rounds::rounds;
use wasmount_tests::seed::seeded;

/// Times that it is killed.
const ROUNDS: usize = 40;
/// Longest time until the kill, in milliseconds: some swaps.
const LONGEST_ROUND: u64 = 120;

#[tokio::test]
async fn privileged_kill_9_amid_swaps_leaves_one_whole_version() {
    let mut scene = Scene::with("").await;
    let plugins = scene.two_builds();
    let digests = [
        scene.swap(&plugins[0]).await.version.unwrap().digest,
        scene.swap(&plugins[1]).await.version.unwrap().digest,
    ];
    let (mut last_number, mut random) = (0, seeded().unwrap());
    for round in 0..rounds(ROUNDS) {
        let mut lives = Lives::begin(&scene.host, &format!("pvc-{round}")).await;
        let client = scene.client.clone();
        let both = plugins.clone();
        let swaps = tokio::spawn(async move {
            let mut told = None;
            for plugin in both.into_iter().cycle() {
                let swap = Swap {
                    plugin: Some(plugin),
                    ..Swap::default()
                };
                match client.swap(DRIVER, &swap).await {
                    Ok(done) => told = done.version,
                    Err(_) => return told,
                }
            }
            told
        });
        sleep(Duration::from_millis(random.u64(..LONGEST_ROUND))).await;
        lives.assert_none_failed();
        scene.host.kill_9().unwrap();
        let told = swaps.await.unwrap();
        // Each call that was under way failed by the kill; what it left is looked at by `kill`'s own tests.
        for failed in lives.cut_off().await {
            let Failed { life, call, status } = failed;
            let by_the_kill = [Code::Unavailable, Code::Unknown, Code::Cancelled];
            assert!(
                by_the_kill.contains(&status.code()),
                "{life}: {call}: {status:?}"
            );
        }
        scene.host.restart().unwrap();
        scene.host.orchestrator().await.unwrap();
        let status = scene
            .until("one serves", |it| {
                it.status.version.is_some() && it.status.phase == Phase::Serving
            })
            .await;
        let version = status.status.version.unwrap();
        assert!(digests.contains(&version.digest), "{version:?}");
        // What was answered is kept: it is that version, or the one that was under way.
        if let Some(told) = told {
            assert!(version.number >= told.number, "{version:?} after {told:?}");
            assert!(
                version.number <= told.number + 1,
                "{version:?} after {told:?}"
            );
        }
        assert!(version.number >= last_number, "{version:?}");
        last_number = version.number;
        let serving = scene.history().await.versions;
        let serving = serving
            .iter()
            .filter(|it| it.state == VersionState::Serving)
            .count();
        assert_eq!(serving, 1);
        // Whole: it does all that a volume needs.
        Lives::some(&scene.host, &format!("after-{round}")).await;
    }
    scene.host.abandon().unwrap();
}
