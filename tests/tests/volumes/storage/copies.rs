//! Snapshots and clones: each holds what its source held at that moment, and neither hears of the other afterwards.

use crate::storage::{CONTENT_BYTES, assert_codes, assert_nothing_left, back, serving};
use tonic::Code;
use wasmount_csi::wire::csi::v1::{ListSnapshotsRequest, ListVolumesRequest};
use wasmount_tests::copies::{begun_with, cloned, copy, delete_snapshot, restored, snapshot};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::{code, patiently};

/// While the source is in use beside its copies: two xfs of one UUID are mounted on this node at a time.
async fn copies_stand_alone(kind: Kind) {
    let (mut host, mut orchestrator) = serving().await;
    let (first, second) = (random_bytes(CONTENT_BYTES), random_bytes(CONTENT_BYTES));
    let source = kind.created(&orchestrator, "source").await.unwrap();
    kind.set_up(&orchestrator, &source).await.unwrap();
    kind.write(&source.target, &first).unwrap();
    let taken = patiently(&[Code::Aborted], || {
        snapshot(&orchestrator, &source.id, "taken")
    });
    let taken = taken.await.unwrap();
    kind.write(&source.target, &second).unwrap();
    orchestrator = back(&mut host).await;
    let again = snapshot(&orchestrator, &source.id, "taken").await.unwrap();
    assert_eq!(again, taken);
    let clone = begun_with(&orchestrator, kind, "clone", cloned(&source.id))
        .await
        .unwrap();
    let restore = begun_with(&orchestrator, kind, "restore", restored(&taken))
        .await
        .unwrap();
    let of_clone = begun_with(&orchestrator, kind, "of-clone", cloned(&clone.id))
        .await
        .unwrap();
    for (what, volume, content) in [
        ("the source", &source, &second),
        ("its clone", &clone, &second),
        ("the clone of the clone", &of_clone, &second),
        ("the restored snapshot", &restore, &first),
    ] {
        let found = kind.read(&volume.target, CONTENT_BYTES).unwrap();
        assert!(found == *content, "{what} holds other bytes");
    }
    kind.write(&clone.target, &first).unwrap();
    assert!(kind.read(&source.target, CONTENT_BYTES).unwrap() == second);

    // A snapshot outlives its volume, a clone its source.
    orchestrator.tear_down(&source).await.unwrap();
    let late = begun_with(&orchestrator, kind, "late", restored(&taken))
        .await
        .unwrap();
    assert!(kind.read(&late.target, CONTENT_BYTES).unwrap() == first);
    assert!(kind.read(&clone.target, CONTENT_BYTES).unwrap() == first);
    for _ in 0..2 {
        delete_snapshot(&orchestrator, &taken).await.unwrap();
    }
    for volume in [&clone, &restore, &of_clone, &late] {
        orchestrator.tear_down(volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_copies_of_a_directory_stand_alone() {
    copies_stand_alone(Kind::Directory).await;
}

#[tokio::test]
async fn privileged_copies_of_an_ext4_image_stand_alone() {
    copies_stand_alone(Kind::Filesystem("ext4")).await;
}

#[tokio::test]
async fn privileged_copies_of_an_xfs_image_stand_alone() {
    copies_stand_alone(Kind::Filesystem("xfs")).await;
}

#[tokio::test]
async fn privileged_copies_of_a_raw_block_image_stand_alone() {
    copies_stand_alone(Kind::Block).await;
}

#[tokio::test]
async fn privileged_a_restored_file_system_fills_its_larger_volume() {
    let (host, orchestrator) = serving().await;
    for kind in [Kind::Filesystem("ext4"), Kind::Filesystem("xfs")] {
        let content = random_bytes(CONTENT_BYTES);
        let source = kind.created(&orchestrator, "source").await.unwrap();
        kind.set_up(&orchestrator, &source).await.unwrap();
        kind.write(&source.target, &content).unwrap();
        let taken = snapshot(&orchestrator, &source.id, "taken").await.unwrap();
        let mut request = copy(kind, "larger", restored(&taken));
        request.capacity_range = Some(wasmount_tests::requests::at_least(4 * kind.bytes()));
        let (id, bytes) = orchestrator.create(request).await.unwrap();
        assert_eq!(bytes, 4 * kind.bytes());
        let larger = orchestrator.place("larger", id).unwrap();
        kind.set_up(&orchestrator, &larger).await.unwrap();
        assert!(kind.read(&larger.target, CONTENT_BYTES).unwrap() == content);
        let stats = orchestrator
            .stats(&larger.id, &larger.target)
            .await
            .unwrap();
        let total = stats.usage.first().unwrap().total;
        assert!(total > 3 * kind.bytes(), "{kind:?} still has {total} bytes");
        orchestrator.tear_down(&larger).await.unwrap();
        orchestrator.tear_down(&source).await.unwrap();
        delete_snapshot(&orchestrator, &taken).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_an_impossible_copy_is_refused() {
    let (host, orchestrator) = serving().await;
    let (image, directory) = (Kind::Block, Kind::Directory);
    let volume = image.created(&orchestrator, "pvc").await.unwrap();
    let other = image.created(&orchestrator, "other").await.unwrap();
    let taken = snapshot(&orchestrator, &volume.id, "taken").await.unwrap();
    let create = |request| async { code(&orchestrator.create(request).await) };
    let mut smaller = copy(image, "smaller", cloned(&volume.id));
    smaller.capacity_range = Some(wasmount_csi::wire::csi::v1::CapacityRange {
        required_bytes: 0,
        limit_bytes: image.bytes() / 2,
    });
    assert_codes(&[
        (
            "clone of an unknown volume",
            create(copy(image, "copy", cloned("../../etc"))).await,
            Code::NotFound,
        ),
        (
            "restore of an unknown snapshot",
            create(copy(image, "copy", restored(&volume.id))).await,
            Code::NotFound,
        ),
        (
            "clone of another kind",
            create(copy(directory, "copy", cloned(&volume.id))).await,
            Code::InvalidArgument,
        ),
        (
            "clone that is too small",
            create(smaller).await,
            Code::OutOfRange,
        ),
        (
            "a name that is there with another source",
            create(copy(image, "pvc", cloned(&other.id))).await,
            Code::AlreadyExists,
        ),
        (
            "a snapshot's name that is there with another source",
            code(&snapshot(&orchestrator, &other.id, "taken").await),
            Code::AlreadyExists,
        ),
        (
            "a snapshot of an unknown volume",
            code(&snapshot(&orchestrator, "unknown", "more").await),
            Code::NotFound,
        ),
    ]);
    delete_snapshot(&orchestrator, &taken).await.unwrap();
    for volume in [&volume, &other] {
        orchestrator.tear_down(volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_volumes_and_snapshots_are_listed_once() {
    /// No multiple of the page.
    const VOLUMES: usize = 7;
    const PAGE: i32 = 3;
    let (host, orchestrator) = serving().await;
    let mut controller = orchestrator.clients().controller;
    let mut expected = Vec::new();
    for number in 0..VOLUMES {
        let kind = if number % 2 == 0 {
            Kind::Block
        } else {
            Kind::Directory
        };
        let name = format!("pvc-{number}");
        let id = orchestrator.create(kind.create(&name)).await.unwrap().0;
        let taken = snapshot(&orchestrator, &id, &name).await.unwrap();
        expected.push((id, taken));
    }
    let (mut volumes, mut snapshots) = (Vec::new(), Vec::new());
    let mut starting_token = String::new();
    loop {
        let request = ListVolumesRequest {
            max_entries: PAGE,
            starting_token,
        };
        let page = controller.list_volumes(request).await.unwrap().into_inner();
        volumes.extend(
            page.entries
                .into_iter()
                .map(|it| it.volume.unwrap().volume_id),
        );
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    loop {
        let request = ListSnapshotsRequest {
            max_entries: PAGE,
            starting_token,
            ..ListSnapshotsRequest::default()
        };
        let page = controller
            .list_snapshots(request)
            .await
            .unwrap()
            .into_inner();
        let ids = page.entries.into_iter().map(|it| it.snapshot.unwrap());
        snapshots.extend(ids.map(|it| (it.source_volume_id, it.snapshot_id)));
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    volumes.sort();
    snapshots.sort();
    expected.sort();
    assert_eq!(snapshots, expected);
    assert_eq!(
        volumes,
        expected
            .iter()
            .map(|(id, _)| id.clone())
            .collect::<Vec<_>>()
    );
    let stale = ListVolumesRequest {
        max_entries: PAGE,
        starting_token: "../..".to_owned(),
    };
    let refused = controller.list_volumes(stale).await;
    assert_eq!(code(&refused), Code::Aborted);
    for (id, taken) in expected {
        orchestrator.delete(&id).await.unwrap();
        delete_snapshot(&orchestrator, &taken).await.unwrap();
    }
    assert_nothing_left(&host);
}
