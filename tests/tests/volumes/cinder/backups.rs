//! Backups in Cinder as snapshots of CSI: their life, without their volume too, and what Cinder refuses, loses or fails at.

use super::driver::{GIB, Scene};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::volume_content_source::Type;
use wasmount_csi::wire::csi::v1::{
    CreateSnapshotRequest, CreateVolumeRequest, ListSnapshotsRequest, Snapshot, Volume,
    VolumeContentSource,
};
use wasmount_tests::cinder::AccountOptions;
use wasmount_tests::copies::{delete_snapshot, restored};
use wasmount_tests::orchestrator::{Orchestrator, code, patiently};
use wasmount_tests::requests;

/// In the midst of the volume: the seventh of the 32 MiB that Cinder reads at once.
const MARK_AT: u64 = 200 << 20;
const MARK: &[u8] = b"what a pod wrote";
/// Cinder takes longer than a call on a busy machine: the call is repeated.
const SLOW: [Code; 2] = [Code::Aborted, Code::DeadlineExceeded];

async fn back_up(
    orchestrator: &Orchestrator,
    volume: &str,
    name: &str,
    parameters: &[(&str, &str)],
) -> Result<Snapshot, Status> {
    let mut all = vec![("type", "backup")];
    all.extend(parameters);
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: name.to_owned(),
        parameters: all.into_iter().map(pair).collect(),
        ..CreateSnapshotRequest::default()
    };
    let mut controller = orchestrator.clients().controller;
    let answer = controller.create_snapshot(request).await?.into_inner();
    Ok(answer.snapshot.unwrap())
}

async fn restore(orchestrator: &Orchestrator, name: &str, backup: &str) -> Result<Volume, Status> {
    let source = Some(restored(backup));
    let request = CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: source }),
        ..requests::create(name, 2 * GIB)
    };
    let mut controller = orchestrator.clients().controller;
    let answer = controller.create_volume(request).await?.into_inner();
    Ok(answer.volume.unwrap())
}

/// All snapshots of a volume, or the one of an id.
async fn listed(orchestrator: &Orchestrator, volume: &str, id: &str) -> Vec<Snapshot> {
    let request = ListSnapshotsRequest {
        source_volume_id: volume.to_owned(),
        snapshot_id: id.to_owned(),
        ..ListSnapshotsRequest::default()
    };
    let mut controller = orchestrator.clients().controller;
    let page = controller.list_snapshots(request).await.unwrap();
    let entries = page.into_inner().entries.into_iter();
    entries.map(|entry| entry.snapshot.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_backup_in_cinder_outlives_its_volume() {
    let scene = Scene::of(0, AccountOptions::default(), &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let created = orchestrator.create(requests::create("a", GIB)).await;
    let (volume, _) = created.unwrap();
    let file = fs::File::options()
        .write(true)
        .open(scene.cinder.file_of(&volume));
    file.unwrap().write_all_at(MARK, MARK_AT).unwrap();

    let made = patiently(&SLOW, || back_up(&orchestrator, &volume, "b", &[])).await;
    let backup = made.unwrap();
    assert!(backup.ready_to_use);
    assert_eq!(
        (&backup.source_volume_id, backup.size_bytes),
        (&volume, GIB)
    );
    let again = back_up(&orchestrator, &volume, "b", &[]).await.unwrap();
    assert_eq!(again, backup);
    // The snapshot that it was made from is gone.
    assert_eq!(scene.names("snapshots"), [""; 0]);
    assert_eq!(scene.names("backups"), ["b"]);
    for (volume, id) in [("", ""), (&*volume, ""), ("", &*backup.snapshot_id)] {
        let found = listed(&orchestrator, volume, id).await;
        assert_eq!(found, std::slice::from_ref(&backup));
    }

    orchestrator.delete(&volume).await.unwrap();
    let restored = patiently(&SLOW, || restore(&orchestrator, "r", &backup.snapshot_id)).await;
    let restored = restored.unwrap();
    assert_eq!(restored.capacity_bytes, 2 * GIB);
    let source = restored.content_source.as_ref().unwrap();
    assert!(
        matches!(&source.r#type, Some(Type::Snapshot(it)) if it.snapshot_id == backup.snapshot_id)
    );
    let again = restore(&orchestrator, "r", &backup.snapshot_id).await;
    assert_eq!(again.unwrap(), restored);
    let mut found = [0; MARK.len()];
    let file = fs::File::open(scene.cinder.file_of(&restored.volume_id)).unwrap();
    file.read_exact_at(&mut found, MARK_AT).unwrap();
    assert_eq!(found, MARK);
    let found = listed(&orchestrator, "", &backup.snapshot_id).await;
    assert_eq!(found, std::slice::from_ref(&backup));
    orchestrator.delete(&restored.volume_id).await.unwrap();

    // What the backup service kept is lost: the volume is not left half restored.
    let kept = scene.cinder.backup(&backup.snapshot_id);
    assert!(fs::read_dir(&kept).unwrap().count() > 0);
    fs::remove_dir_all(&kept).unwrap();
    let lost = patiently(&SLOW, || {
        restore(&orchestrator, "lost", &backup.snapshot_id)
    })
    .await;
    assert_eq!(code(&lost), Code::ResourceExhausted, "{lost:?}");
    let gone = || async {
        match scene.names("volumes").is_empty() {
            true => Ok(()),
            false => Err(Status::unavailable("Cinder is deleting it")),
        }
    };
    patiently(&[Code::Unavailable], gone).await.unwrap();

    for _ in 0..2 {
        delete_snapshot(&orchestrator, &backup.snapshot_id)
            .await
            .unwrap();
    }
    assert_eq!(listed(&orchestrator, "", &backup.snapshot_id).await, []);
    let gone = restore(&orchestrator, "gone", &backup.snapshot_id).await;
    assert_eq!(code(&gone), Code::NotFound, "{gone:?}");
    scene.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_backup_beyond_the_quota_leaves_nothing() {
    let options = AccountOptions {
        quota_backups: Some(0),
        ..AccountOptions::default()
    };
    let scene = Scene::of(0, options, &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let created = orchestrator.create(requests::create("a", GIB)).await;
    let (volume, _) = created.unwrap();
    let over = patiently(&SLOW, || back_up(&orchestrator, &volume, "b", &[])).await;
    assert_eq!(code(&over), Code::ResourceExhausted, "{over:?}");
    // Otherwise Cinder would keep its volume.
    let delete = || orchestrator.delete(&volume);
    let while_deleting = [Code::FailedPrecondition];
    patiently(&while_deleting, delete).await.unwrap();
    scene.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_backup_without_its_service_says_so() {
    let scene = Scene::of(0, AccountOptions::default(), &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let created = orchestrator.create(requests::create("a", GIB)).await;
    let (volume, _) = created.unwrap();
    let other = orchestrator.create(requests::create("other", GIB)).await;
    // There is a service in zone-a only.
    let parameters = [("availability", "zone-b")];
    for _ in 0..2 {
        let refused = patiently(&SLOW, || back_up(&orchestrator, &volume, "b", &parameters)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains("Service not found"), "{refused}");
    }
    // Cinder keeps what it failed at, and forgets the status of the volume. All others live on.
    let token = scene.account.log_in().unwrap();
    let volumes = scene.account.volumes(&token).unwrap();
    let lost = volumes.iter().filter(|it| it["status"] == Value::Null);
    assert_eq!(lost.count(), 1, "{volumes:?}");
    let kept = listed(&orchestrator, "", "").await;
    assert!(kept.iter().all(|it| !it.ready_to_use), "{kept:?}");
    let mut refusals = Vec::new();
    for it in &kept {
        let refused = delete_snapshot(&orchestrator, &it.snapshot_id).await;
        refusals.push(code(&refused));
    }
    // The snapshot still is being backed up, and no service deletes the backup.
    assert_eq!(refusals, [Code::Aborted, Code::Unavailable]);
    orchestrator.is_known(&volume).await.unwrap();
    let kept = orchestrator.delete(&volume).await;
    assert_eq!(code(&kept), Code::FailedPrecondition, "{kept:?}");
    orchestrator.delete(&other.unwrap().0).await.unwrap();
}
