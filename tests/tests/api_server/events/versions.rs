//! What happens to the versions of a driver: Events on its CSIDriver, metrics and log.

use crate::events::scene::Scene;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tonic::Code;
use wasmount_control::Client;

/// Of a claim whose events nobody asks for.
const UID: &str = "2a1b2c3d-4e5f-6789-abcd-ef0123456789";
/// A version on trial for a second, and for two faults.
const TRIAL: &str = "  versions: { drain: 1s, rollback: { faults: 2, window: 1s } }\n";
/// A version that is admitted and then traps in every call.
const TRAPS: &str = "  versions: { drain: 1s, rollback: { faults: 2, window: 1s } }\n  settings: { every-call: trap }\n";
/// Until a version must be proven, or taken back. Generous, since other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two calls. A tenth of the trial: an answer within it proves a version.
const AGAIN: Duration = Duration::from_millis(100);

/// The value of a counter of this driver.
fn count(scene: &Scene, name: &str) -> String {
    let driver = &scene.driver;
    scene.metric(&format!("{name}{{driver=\"{driver}\"}}"))
}

/// How often the host rolled a version back, and how often a command did.
fn rollbacks(scene: &Scene) -> [String; 2] {
    let (name, driver) = ("wasmount_plugin_rollbacks_total", &scene.driver);
    ["faults", "command"].map(|trigger| {
        scene.metric(&format!(
            "{name}{{driver=\"{driver}\",trigger=\"{trigger}\"}}"
        ))
    })
}

/// Creates volumes until it answers so.
async fn until(scene: &Scene, wanted: Code) {
    let start = Instant::now();
    while scene.create("data", UID, "well").await != wanted {
        assert!(start.elapsed() < PATIENCE, "{}", scene.host.log());
        sleep(AGAIN).await;
    }
}

/// Waits until the status tells of it.
async fn one_call_in_flight(scene: &Scene) {
    let client = Client::new(scene.host.data().join("admin.sock"));
    let start = Instant::now();
    loop {
        let status = client.status().await.unwrap();
        if status.drivers.iter().any(|it| it.calls_in_flight == 1) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{status:#?}");
        sleep(AGAIN).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_real_api_server_gets_swap_and_rollback_events() {
    let scene = Scene::with("trapping.example", TRAPS).await;
    until(&scene, Code::Internal).await;
    until(&scene, Code::Internal).await;
    let event = scene.told("PluginCannotRollBack").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let note = event.message.unwrap();
    assert!(
        note.contains("version 1 fails and could not be rolled back: version 1 had 2 faults"),
        "{note}"
    );
    assert!(
        note.contains("there is no proven version to roll back to; swap to a corrected one"),
        "{note}"
    );
    assert_eq!(rollbacks(&scene), ["0", "0"]);

    scene.change(TRIAL);
    until(&scene, Code::Ok).await;
    let swaps: u64 = count(&scene, "wasmount_plugin_swaps_total")
        .parse()
        .unwrap();
    // A window with an answer in it proves the version.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        until(&scene, Code::Ok).await;
        sleep(AGAIN).await;
    }

    scene.change(TRAPS);
    until(&scene, Code::Internal).await;
    until(&scene, Code::Ok).await;
    let event = scene.told("PluginRolledBack").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let note = event.message.unwrap();
    assert!(
        note.contains("version 3 was rolled back, version 2 (misbehave.wasmount.io, "),
        "{note}"
    );
    assert!(note.contains("version 3 had 2 faults"), "{note}");
    assert_eq!(rollbacks(&scene), ["1", "0"]);
    let after: u64 = count(&scene, "wasmount_plugin_swaps_total")
        .parse()
        .unwrap();
    assert_eq!(after, swaps + 1);
    assert!(scene.host.log().contains("version rolled back"));
    assert_eq!(
        scene.told("PluginSwapped").await.type_.as_deref(),
        Some("Normal")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_real_api_server_gets_rejection_events() {
    let scene = Scene::with("refused.example", TRIAL).await;
    until(&scene, Code::Ok).await;
    scene.change("  settings: { behaviour: bad-settings }\n");
    let event = scene.told("PluginVersionRefused").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let note = event.message.unwrap();
    assert!(
        note.contains("was refused (settings): ") && note.contains("`endpoint` is missing"),
        "{note}"
    );
    let driver = &scene.driver;
    let refusals =
        format!("wasmount_plugin_refusals_total{{driver=\"{driver}\",kind=\"settings\"}}");
    assert_eq!(scene.metric(&refusals), "1");

    // A call that lasts longer than the old version's time to drain.
    let (slept, ()) = tokio::join!(scene.create("data", UID, "sleep"), async {
        one_call_in_flight(&scene).await;
        scene.change(&format!("{TRIAL}  settings: {{ tier: gold }}\n"));
    });
    assert_eq!(slept, Code::DeadlineExceeded);
    let event = scene.told("PluginStillDraining").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let note = event.message.unwrap();
    assert!(
        note.contains("version 1 was replaced and still has 1 calls"),
        "{note}"
    );
    until(&scene, Code::Ok).await;
}
