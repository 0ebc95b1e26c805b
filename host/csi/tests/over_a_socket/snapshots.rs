//! Snapshots and groups of them: each RPC with valid and invalid requests.

use crate::support::{Served, refused, volume_named};
use tonic::Code;
use wasmount_csi::wire::csi::v1 as wire;

async fn with_volumes(names: &[&str]) -> Served {
    let served = Served::whole();
    let mut controller = served.controller().await;
    for name in names {
        controller.create_volume(volume_named(name)).await.unwrap();
    }
    served
}

fn snapshot_of(source: &str, name: &str) -> wire::CreateSnapshotRequest {
    wire::CreateSnapshotRequest {
        source_volume_id: source.to_owned(),
        name: name.to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_snapshot_is_made_found_and_deleted() {
    let served = with_volumes(&["a"]).await;
    let mut controller = served.controller().await;
    let made = controller
        .create_snapshot(snapshot_of("v-a", "x"))
        .await
        .unwrap()
        .into_inner()
        .snapshot
        .unwrap();
    assert_eq!(
        (made.snapshot_id.as_str(), made.source_volume_id.as_str()),
        ("s-x", "v-a")
    );
    assert_eq!(
        (
            made.size_bytes,
            made.ready_to_use,
            made.group_snapshot_id.as_str()
        ),
        (1024, true, "")
    );
    let moment = made.creation_time.unwrap();
    assert_eq!((moment.seconds, moment.nanos), (1, 500_000_000));

    let get = wire::GetSnapshotRequest {
        snapshot_id: "s-x".to_owned(),
        ..Default::default()
    };
    let found = controller
        .get_snapshot(get.clone())
        .await
        .unwrap()
        .into_inner()
        .snapshot
        .unwrap();
    assert_eq!(found, made);
    let delete = wire::DeleteSnapshotRequest {
        snapshot_id: "s-x".to_owned(),
        ..Default::default()
    };
    controller.delete_snapshot(delete).await.unwrap();
    assert_eq!(
        refused(controller.get_snapshot(get).await).0,
        Code::NotFound
    );
}

#[tokio::test]
async fn a_snapshot_of_nothing_is_not_found() {
    let served = with_volumes(&[]).await;
    let refused = refused(
        served
            .controller()
            .await
            .create_snapshot(snapshot_of("v-a", "x"))
            .await,
    );
    assert_eq!(refused, (Code::NotFound, "v-a does not exist".to_owned()));
}

#[tokio::test]
async fn snapshots_are_listed_by_source_and_by_id() {
    let served = with_volumes(&["a", "b"]).await;
    let mut controller = served.controller().await;
    for (source, name) in [("v-a", "x"), ("v-b", "y")] {
        controller
            .create_snapshot(snapshot_of(source, name))
            .await
            .unwrap();
    }
    let table = [
        (("", ""), vec!["s-x", "s-y"]),
        (("v-b", ""), vec!["s-y"]),
        (("", "s-x"), vec!["s-x"]),
        (("", "s-z"), vec![]),
    ];
    for ((source, id), expected) in table {
        let request = wire::ListSnapshotsRequest {
            source_volume_id: source.to_owned(),
            snapshot_id: id.to_owned(),
            ..Default::default()
        };
        let entries = controller
            .list_snapshots(request)
            .await
            .unwrap()
            .into_inner()
            .entries;
        let ids = entries
            .into_iter()
            .map(|entry| entry.snapshot.unwrap().snapshot_id)
            .collect::<Vec<_>>();
        assert_eq!(ids, expected);
    }
}

#[tokio::test]
async fn a_group_is_made_of_its_volumes_found_and_deleted() {
    let served = with_volumes(&["a", "b"]).await;
    let mut groups = served.groups().await;
    let create = wire::CreateVolumeGroupSnapshotRequest {
        name: "g".to_owned(),
        source_volume_ids: vec!["v-a".to_owned(), "v-b".to_owned()],
        ..Default::default()
    };
    let made = groups
        .create_volume_group_snapshot(create)
        .await
        .unwrap()
        .into_inner()
        .group_snapshot
        .unwrap();
    assert_eq!(
        (made.group_snapshot_id.as_str(), made.ready_to_use),
        ("g-g", true)
    );
    let members = made.snapshots.iter().map(|each| {
        (
            each.source_volume_id.as_str(),
            each.group_snapshot_id.as_str(),
        )
    });
    assert_eq!(
        members.collect::<Vec<_>>(),
        [("v-a", "g-g"), ("v-b", "g-g")]
    );

    let get = wire::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: "g-g".to_owned(),
        ..Default::default()
    };
    let found = groups
        .get_volume_group_snapshot(get.clone())
        .await
        .unwrap()
        .into_inner()
        .group_snapshot
        .unwrap();
    assert_eq!(found, made);
    let delete = wire::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: "g-g".to_owned(),
        ..Default::default()
    };
    groups.delete_volume_group_snapshot(delete).await.unwrap();
    assert_eq!(
        refused(groups.get_volume_group_snapshot(get).await).0,
        Code::NotFound
    );
}
