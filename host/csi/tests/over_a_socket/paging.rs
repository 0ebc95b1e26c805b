//! Page tokens: they continue a list, only in their own list, and the backend receives no other token.

use crate::support::{CONNECTIONS, Served, config, refused, volume_named};
use std::sync::atomic::Ordering;
use tonic::Code;
use wasmount_core::driver::{DriverConfig, Role};
use wasmount_core::names::DriverName;
use wasmount_core::services::{Service, ServiceSet};
use wasmount_csi::wire::csi::v1 as wire;

async fn with_volumes(served: Served) -> Served {
    let mut controller = served.controller().await;
    for name in ["a", "b", "c"] {
        controller.create_volume(volume_named(name)).await.unwrap();
        let snapshot = wire::CreateSnapshotRequest {
            source_volume_id: "v-a".to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        controller.create_snapshot(snapshot).await.unwrap();
    }
    served
}

fn volumes(max_entries: i32, token: &str) -> wire::ListVolumesRequest {
    wire::ListVolumesRequest {
        max_entries,
        starting_token: token.to_owned(),
    }
}

fn snapshots(source: &str, token: &str) -> wire::ListSnapshotsRequest {
    wire::ListSnapshotsRequest {
        max_entries: 1,
        starting_token: token.to_owned(),
        source_volume_id: source.to_owned(),
        ..Default::default()
    }
}

/// The token after the first volume.
async fn token(served: &Served) -> String {
    let mut controller = served.controller().await;
    let page = controller.list_volumes(volumes(1, "")).await.unwrap();
    page.into_inner().next_token
}

#[tokio::test]
async fn a_token_leads_on_and_shows_nothing_of_the_backends_own() {
    let served = with_volumes(Served::whole()).await;
    let token = token(&served).await;
    assert!(!token.contains("v-a"), "{token}");
    let mut controller = served.controller().await;
    let rest = controller
        .list_volumes(volumes(0, &token))
        .await
        .unwrap()
        .into_inner();
    let ids: Vec<_> = rest
        .entries
        .into_iter()
        .map(|entry| entry.volume.unwrap().volume_id)
        .collect();
    assert_eq!(
        (ids, rest.next_token.as_str()),
        (vec!["v-b".to_owned(), "v-c".to_owned()], "")
    );
}

#[tokio::test]
async fn a_token_of_another_list_is_aborted_and_the_backend_not_asked() {
    let served = with_volumes(Served::whole()).await;
    let token = token(&served).await;
    let mut controller = served.controller().await;
    let of_a = controller
        .list_snapshots(snapshots("v-a", ""))
        .await
        .unwrap()
        .into_inner()
        .next_token;
    let asked = || served.backend.lists.load(Ordering::SeqCst);
    let before = asked();
    for stranger in ["v-a", "invalid-token", &of_a, &format!("{token}A")] {
        let answer = controller.list_volumes(volumes(1, stranger)).await;
        assert_eq!(refused(answer).0, Code::Aborted, "{stranger}");
    }
    for (source, stranger) in [("v-a", &token), ("", &of_a), ("v-b", &of_a)] {
        let answer = controller.list_snapshots(snapshots(source, stranger)).await;
        assert_eq!(refused(answer).0, Code::Aborted, "{source}");
    }
    assert_eq!(asked(), before);
    controller
        .list_snapshots(snapshots("v-a", &of_a))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_token_outlives_the_process_and_is_none_of_another_driver() {
    let token = token(&with_volumes(Served::whole()).await).await;
    let other = DriverConfig {
        name: DriverName::parse("other.wasmount.io").unwrap(),
        ..config(Role::All)
    };
    let offer = ServiceSet::new(Service::ALL.iter().copied(), []);
    let other = with_volumes(Served::configured(other, offer, CONNECTIONS)).await;
    let next = with_volumes(Served::whole()).await;
    for (served, expected) in [(&next, None), (&other, Some(Code::Aborted))] {
        let answer = served
            .controller()
            .await
            .list_volumes(volumes(1, &token))
            .await;
        assert_eq!(answer.err().map(|status| status.code()), expected);
    }
}
