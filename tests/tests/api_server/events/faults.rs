//! Faults of a plugin, as Events on a claim and on a pod.

use crate::events::scene::{PASSWORD, Scene};
use crate::server::Server;
use k8s_openapi::api::core::v1::Event;
use tonic::Code;

/// Of claims and pods.
const UID: &str = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";
const OTHER: &str = "1a1b2c3d-4e5f-6789-abcd-ef0123456789";
const CLAIM: &str = "PersistentVolumeClaim";

fn reason(event: &Event) -> &str {
    event.reason.as_deref().unwrap()
}

fn note(event: &Event) -> &str {
    event.message.as_deref().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_real_api_server_gets_claim_events_once() {
    let scene = Scene::with("claims.example", "").await;
    let driver = &scene.driver;
    // First what is the user's own: Events come in the order of the faults.
    let own = scene.create("data", UID, "error").await;
    assert_eq!(own, Code::OutOfRange);
    for _ in 0..100 {
        assert_eq!(scene.create("data", UID, "trap").await, Code::Internal);
    }
    let over = scene.create("data", UID, "allocate").await;
    assert_eq!(over, Code::ResourceExhausted);
    let events = scene.comes_to(CLAIM, "data", UID, 2).await;
    let mut reasons: Vec<_> = events.iter().map(reason).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["PluginOverLimit", "PluginTrapped"]);
    for event in &events {
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.action.as_deref(), Some("CreateVolume"));
        let note = note(event);
        assert!(
            note.contains("The plugin misbehave.wasmount.io 0.1.0 ("),
            "{note}"
        );
        let whom = format!("notify the administrator of the StorageBackend for driver {driver}");
        assert!(note.contains(&whom), "{note}");
        assert!(event.series.is_none(), "written again: {event:?}");
    }
    // All are counted.
    let traps = format!("wasmount_plugin_faults_total{{driver=\"{driver}\",kind=\"trapped\"}}");
    assert_eq!(scene.metric(&traps), "100");
    let calls = format!(
        "wasmount_csi_call_duration_seconds_count{{driver=\"{driver}\",method=\"CreateVolume\",code=\"Internal\"}}"
    );
    assert_eq!(scene.metric(&calls), "100");
    assert!(!scene.metrics().contains("data"), "a label from a request");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_real_api_server_gets_pod_events_without_secrets() {
    let scene = Scene::with("pods.example", "").await;
    let secret = scene.publish("web-1", OTHER, "secret-in-plan").await;
    assert_ne!(secret, Code::Ok);
    let refused = scene.publish("web-0", UID, "pool-not-granted").await;
    assert_eq!(refused, Code::PermissionDenied);
    let [event] = &scene.comes_to("Pod", "web-0", UID, 1).await[..] else {
        panic!("one event");
    };
    assert_eq!(reason(event), "PluginNotGranted");
    assert!(note(event).contains("`spec.grants`"), "{}", note(event));
    // A tenant can make any word the value of a secret: that is no fault of the plugin, and only kubelet gets the message.
    let others = scene.events("Pod", "web-1", OTHER).await;
    assert!(others.is_empty(), "{others:?}");
    let half = &PASSWORD[..PASSWORD.len() / 2];
    assert!(!scene.host.log().contains(half));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_without_its_real_api_server_events_wait() {
    let scene = Scene::beside(Server::start().await, "waits.example").await;
    scene.server.plane.stop_api();
    assert_eq!(scene.create("data", UID, "trap").await, Code::Internal);
    assert_eq!(scene.create("data", OTHER, "well").await, Code::Ok);
    scene.server.plane.start_api().await.unwrap();
    // It was not written, so the next fault is told.
    let start = std::time::Instant::now();
    while scene.events(CLAIM, "data", UID).await.is_empty() {
        assert!(start.elapsed().as_secs() < 120, "{}", scene.host.log());
        assert_eq!(scene.create("data", UID, "trap").await, Code::Internal);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}
