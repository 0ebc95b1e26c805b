//! What a kubelet may do to a driver: take it, refuse it once or again and again, hang, come late, forget everybody.

use crate::kubelet::process::{Heard, Kubelet, Mood, dial, node_id};
use crate::kubelet::scene::Scene;
use std::time::Duration;
use tokio::task::JoinSet;
use wasmount_kubernetes::wire::pluginregistration::registration_client::RegistrationClient;
use wasmount_kubernetes::wire::pluginregistration::{InfoRequest, PluginInfo};

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_driver_registers_with_every_kubelet() {
    let scene = Scene::new();
    let mut kubelet = Kubelet::start(scene.kubelet());
    let mut host = scene.host("host", &[]);
    kubelet.takes("a.b").await;
    host.is_ready();
    let endpoint = scene.endpoint("a.b").display().to_string();
    let expected = [
        Heard::Appeared("a.b@reg.sock".to_owned()),
        Heard::Info(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: "a.b".to_owned(),
            endpoint: endpoint.clone(),
            supported_versions: vec!["1.0.0".to_owned()],
        }),
        Heard::Node {
            driver: "a.b".to_owned(),
            id: "test-node".to_owned(),
        },
        Heard::Told {
            driver: "a.b".to_owned(),
            error: String::new(),
        },
    ];
    kubelet
        .hears(1, |heard| matches!(heard, Heard::Told { .. }))
        .await;
    assert_eq!(kubelet.heard(), expected);

    kubelet.restarts().await;
    kubelet.takes("a.b").await;
    kubelet.restarts_with_an_empty_registry().await;
    kubelet.takes("a.b").await;
    host.is_ready();
    host.says("its registration socket was removed");

    assert!(host.terminate().success());
    kubelet.loses("a.b").await;
    assert!(!kubelet.socket("a.b").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_rejected_driver_reports_kubelet_and_returns() {
    let scene = Scene::new();
    let refusals = [Mood::Refuses("no room\nfor it"), Mood::Refuses("still no")];
    let kubelet = Kubelet::in_moods(scene.kubelet(), refusals);
    let mut host = scene.host("host", &[]);
    let first = host.says("kubelet refused it: no room for it");
    assert!(first.contains("retry_seconds=1"), "{first}");
    let second = host.says("kubelet refused it: still no");
    assert!(second.contains("retry_seconds=2"), "{second}");
    kubelet.takes("a.b").await;
    host.is_ready();
    kubelet
        .hears(3, |heard| matches!(heard, Heard::Appeared(_)))
        .await;
    assert!(host.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_rejecting_kubelet_is_asked_with_backoff() {
    let scene = Scene::new();
    let kubelet = Kubelet::in_moods(scene.kubelet(), [const { Mood::Refuses("never") }; 100]);
    let mut host = scene.host("host", &[]);
    for pause in ["1", "2", "4", "8"] {
        host.says(&format!("retry_seconds={pause}"));
    }
    host.is_not_ready("kubelet refused it: never");
    assert!(!kubelet.knows("a.b"));
    // Volumes are served to every client of the socket.
    assert_eq!(
        node_id(&scene.endpoint("a.b")).await.as_deref(),
        Ok("test-node")
    );
    assert!(host.terminate().success());
    assert!(!kubelet.socket("a.b").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_hung_kubelet_delays_no_other_driver() {
    let scene = Scene::new();
    let mut kubelet = Kubelet::in_moods(scene.kubelet(), [Mood::HangsBeforeGetInfo]);
    let mut host = scene.host("host", &[]);
    kubelet
        .hears(1, |heard| matches!(heard, Heard::Hangs(_)))
        .await;
    host.is_not_ready("kubelet has not connected to the registration socket yet");
    let mut asked = JoinSet::new();
    for _ in 0..50 {
        let (socket, endpoint) = (kubelet.socket("a.b"), scene.endpoint("a.b"));
        asked.spawn(async move {
            let mut client = RegistrationClient::new(dial(&socket).await.unwrap());
            let info = client.get_info(InfoRequest {}).await.unwrap().into_inner();
            (info.name, node_id(&endpoint).await.unwrap())
        });
    }
    for answer in asked.join_all().await {
        assert_eq!(answer, ("a.b".to_owned(), "test-node".to_owned()));
    }
    host.is_not_ready("kubelet requested plugin info and has not registered the driver yet");
    kubelet.restarts().await;
    kubelet.takes("a.b").await;
    host.is_ready();
    // What it began and never ended keeps the host from nothing.
    assert!(host.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_hanging_or_late_kubelet_is_waited_for() {
    let scene = Scene::of(&["a.b", "c.d"], "kubelet");
    let moods = [
        Mood::HangsBeforeNotify,
        Mood::TakesAfter(Duration::from_secs(2)),
    ];
    let kubelet = Kubelet::in_moods(scene.kubelet(), moods);
    let mut host = scene.host("host", &[]);
    kubelet
        .hears(1, |heard| matches!(heard, Heard::Hangs(_)))
        .await;
    kubelet
        .hears(1, |heard| matches!(heard, Heard::Told { .. }))
        .await;
    let heard = kubelet.heard();
    let hangs = heard.iter().find_map(|it| match it {
        Heard::Hangs(driver) => Some(driver.as_str()),
        _ => None,
    });
    let (hanging, late) = match hangs {
        Some("a.b") => ("a.b", "c.d"),
        _ => ("c.d", "a.b"),
    };
    let ready = format!("{late}: ok\n");
    let path = format!("/readyz/{late}");
    host.health.becomes(&path, "200", &ready).unwrap();
    let words =
        format!("{hanging}: kubelet requested plugin info and has not registered the driver yet\n");
    let path = format!("/readyz/{hanging}");
    host.health.becomes(&path, "503", &words).unwrap();
    assert!(host.terminate().success());
}
