//! Snapshots of many volumes at one moment: all or none, restored each to what it was, and gone together.

use crate::conformance::driver::Driver;
use std::collections::BTreeMap;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::{
    CreateVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotRequest, VolumeGroupSnapshot,
};
use wasmount_tests::copies::{begun_with, delete_snapshot, restored};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::{Orchestrator, Volume, code, patiently};
use wasmount_tests::rounds::rounds;

/// Volumes of the large group.
const MEMBERS: usize = 50;

/// What each holds: less than a block, and of its own.
const CONTENT_BYTES: usize = 1000;

const KIND: Kind = Kind::Block;

async fn taken(
    orchestrator: &Orchestrator,
    name: &str,
    volumes: &[&Volume],
) -> Result<VolumeGroupSnapshot, Status> {
    let request = CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: volumes.iter().map(|it| it.id.clone()).collect(),
        ..CreateVolumeGroupSnapshotRequest::default()
    };
    let group = orchestrator.clients().group_controller;
    let call = || {
        let (mut group, request) = (group.clone(), request.clone());
        async move { group.create_volume_group_snapshot(request).await }
    };
    let answer = patiently(&[Code::Aborted], call).await?;
    Ok(answer.into_inner().group_snapshot.unwrap())
}

async fn found(
    orchestrator: &Orchestrator,
    group: &VolumeGroupSnapshot,
) -> Result<VolumeGroupSnapshot, Status> {
    let request = GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: members(group),
        ..GetVolumeGroupSnapshotRequest::default()
    };
    let mut client = orchestrator.clients().group_controller;
    let answer = client.get_volume_group_snapshot(request).await?;
    Ok(answer.into_inner().group_snapshot.unwrap())
}

async fn deleted(
    orchestrator: &Orchestrator,
    id: &str,
    members: Vec<String>,
) -> Result<(), Status> {
    let request = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: members,
        ..DeleteVolumeGroupSnapshotRequest::default()
    };
    let mut client = orchestrator.clients().group_controller;
    client.delete_volume_group_snapshot(request).await.map(drop)
}

fn members(group: &VolumeGroupSnapshot) -> Vec<String> {
    group
        .snapshots
        .iter()
        .map(|it| it.snapshot_id.clone())
        .collect()
}

#[tokio::test]
async fn privileged_a_group_snapshot_restores_each_member() {
    let mut driver = Driver::over("xfs").await;
    let mut volumes = Vec::new();
    for number in 0..rounds(MEMBERS) {
        let orchestrator = &driver.orchestrator;
        let volume = KIND
            .created(orchestrator, &format!("pvc-{number}"))
            .await
            .unwrap();
        let content = random_bytes(CONTENT_BYTES);
        KIND.set_up(orchestrator, &volume).await.unwrap();
        KIND.write(&volume.target, &content).unwrap();
        volumes.push((volume, content));
    }
    let sources: Vec<_> = volumes.iter().map(|(volume, _)| volume.clone()).collect();
    let sources: Vec<_> = sources.iter().collect();
    let group = taken(&driver.orchestrator, "group", &sources)
        .await
        .unwrap();
    assert!(group.ready_to_use);
    assert_eq!(group.snapshots.len(), volumes.len());
    for member in &group.snapshots {
        assert_eq!(member.group_snapshot_id, group.group_snapshot_id);
        assert_eq!(
            member.creation_time, group.creation_time,
            "of another moment"
        );
        assert!(member.ready_to_use);
    }
    for (volume, _) in &volumes {
        KIND.write(&volume.target, &random_bytes(CONTENT_BYTES))
            .unwrap();
    }
    driver.kill_and_restart().await;
    let orchestrator = &driver.orchestrator;
    assert_eq!(found(orchestrator, &group).await.unwrap(), group);
    assert_eq!(taken(orchestrator, "group", &sources).await.unwrap(), group);

    let of_volume: BTreeMap<_, _> = group
        .snapshots
        .iter()
        .map(|it| (it.source_volume_id.as_str(), it.snapshot_id.as_str()))
        .collect();
    assert_eq!(of_volume.len(), volumes.len());
    for (volume, content) in &volumes {
        let from = restored(of_volume[volume.id.as_str()]);
        let restored = begun_with(orchestrator, KIND, "restored", from)
            .await
            .unwrap();
        let found = KIND.read(&restored.target, CONTENT_BYTES).unwrap();
        assert!(
            found == *content,
            "{} is restored to other bytes",
            volume.id
        );
        orchestrator.tear_down(&restored).await.unwrap();
        orchestrator.tear_down(volume).await.unwrap();
    }
    // They outlive their volumes, and go together.
    assert_eq!(found(orchestrator, &group).await.unwrap(), group);
    for _ in 0..2 {
        deleted(orchestrator, &group.group_snapshot_id, members(&group))
            .await
            .unwrap();
    }
    assert_eq!(code(&found(orchestrator, &group).await), Code::NotFound);
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_an_impossible_group_is_refused() {
    let driver = Driver::over("xfs").await;
    let orchestrator = &driver.orchestrator;
    let [first, second, other] = [
        KIND.created(orchestrator, "first").await.unwrap(),
        KIND.created(orchestrator, "second").await.unwrap(),
        KIND.created(orchestrator, "other").await.unwrap(),
    ];
    let directory = Kind::Directory
        .created(orchestrator, "directory")
        .await
        .unwrap();
    let unknown = Volume {
        id: "unknown".to_owned(),
        ..first.clone()
    };
    for (what, sources, expected) in [
        ("no volume", vec![], Code::InvalidArgument),
        ("an unknown volume", vec![&first, &unknown], Code::NotFound),
        (
            "a directory",
            vec![&first, &directory],
            Code::FailedPrecondition,
        ),
    ] {
        let refused = taken(orchestrator, "group", &sources).await;
        assert_eq!(code(&refused), expected, "{what}: {refused:?}");
    }
    let group = taken(orchestrator, "group", &[&first, &second])
        .await
        .unwrap();
    let of_others = taken(orchestrator, "group", &[&first, &other]).await;
    assert_eq!(code(&of_others), Code::AlreadyExists);
    let another = taken(orchestrator, "another", &[&other]).await.unwrap();
    let stranger = VolumeGroupSnapshot {
        snapshots: another.snapshots.clone(),
        ..group.clone()
    };
    assert_eq!(
        code(&found(orchestrator, &stranger).await),
        Code::InvalidArgument
    );
    let refused = deleted(orchestrator, &group.group_snapshot_id, members(&another)).await;
    assert_eq!(code(&refused), Code::InvalidArgument);
    // The specification has no member go alone.
    let alone = delete_snapshot(orchestrator, &members(&group)[0]).await;
    assert_eq!(code(&alone), Code::InvalidArgument, "{alone:?}");
    assert_eq!(found(orchestrator, &group).await.unwrap(), group);
    for group in [&group, &another] {
        deleted(orchestrator, &group.group_snapshot_id, members(group))
            .await
            .unwrap();
    }
    for volume in [&first, &second, &other, &directory] {
        orchestrator.tear_down(volume).await.unwrap();
    }
    driver.assert_nothing_left();
}

/// Full copies take too long to be of one moment with each other. The code is the contract's for what a pool cannot copy.
#[tokio::test]
async fn privileged_where_blocks_are_not_shared_there_is_no_group() {
    let driver = Driver::over("ext4").await;
    let orchestrator = &driver.orchestrator;
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    let refused = taken(orchestrator, "group", &[&volume]).await;
    assert_eq!(code(&refused), Code::Unimplemented, "{refused:?}");
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}
