//! The life of each kind of volume: every call twice, some too early or too late, the host killed in the middle, and the data compared byte by
//! byte wherever it can be seen.

use crate::storage::{
    CONTENT_BYTES, Row, assert_codes, assert_nothing_left, back, serving, serving_as,
};
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::leaks::hostpath_pool;
use wasmount_tests::loop_devices;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};

/// Root without any capability: what a container without `privileged` is.
const ROOT: u32 = 0;

/// Another way to use what is staged, which must not be taken for the same.
fn another(kind: Kind) -> Kind {
    match kind {
        Kind::Block => Kind::Filesystem("ext4"),
        _ => Kind::Block,
    }
}

/// Answers of calls that come before what they need.
async fn too_early(orchestrator: &Orchestrator, kind: Kind, volume: &Volume) -> Vec<Row> {
    let publish = kind.publish(volume, &volume.target);
    vec![
        (
            "publish before stage",
            code(&orchestrator.publish_as(publish).await),
            Code::FailedPrecondition,
        ),
        (
            "unpublish what was never published",
            code(&orchestrator.unpublish(volume).await),
            Code::Ok,
        ),
        (
            "unstage what was never staged",
            code(&orchestrator.unstage(volume).await),
            Code::Ok,
        ),
    ]
}

/// Answers of calls that must leave alone what is in use.
async fn too_late(orchestrator: &Orchestrator, kind: Kind, volume: &Volume) -> Vec<Row> {
    let mut otherwise = kind.stage(volume);
    otherwise.volume_capability = Some(another(kind).capability());
    let mut reading = kind.stage(volume);
    reading.volume_capability = Some(kind.capability_in(Mode::SingleNodeReaderOnly));
    let mut read_only = kind.publish(volume, &volume.target);
    read_only.readonly = true;
    vec![
        (
            "stage as something else",
            code(&orchestrator.stage_as(otherwise).await),
            Code::AlreadyExists,
        ),
        (
            "stage for reading",
            code(&orchestrator.stage_as(reading).await),
            Code::AlreadyExists,
        ),
        (
            "publish read-only where it is for writing",
            code(&orchestrator.publish_as(read_only).await),
            Code::AlreadyExists,
        ),
        (
            "unstage while published",
            code(&orchestrator.unstage(volume).await),
            Code::FailedPrecondition,
        ),
        (
            "delete while published",
            code(&orchestrator.delete(&volume.id).await),
            Code::FailedPrecondition,
        ),
    ]
}

/// A whole life. `split`: the user who serves where another process mounts.
async fn live(kind: Kind, split: Option<u32>) {
    let (mut host, mut orchestrator) = serving_as(split).await;
    let content = random_bytes(CONTENT_BYTES);
    let volume = kind.created(&orchestrator, "pvc").await.unwrap();
    assert_eq!(kind.created(&orchestrator, "pvc").await.unwrap(), volume);
    let mut table = too_early(&orchestrator, kind, &volume).await;
    for _ in 0..2 {
        orchestrator.stage_as(kind.stage(&volume)).await.unwrap();
    }
    let staged = host.mounts().unwrap();
    let pool = hostpath_pool(&host);
    let devices = loop_devices::backed_below(&pool).unwrap();
    assert_eq!(devices.is_empty(), kind == Kind::Directory, "{devices:?}");
    let publish = kind.publish(&volume, &volume.target);
    for _ in 0..2 {
        orchestrator.publish_as(publish.clone()).await.unwrap();
    }
    assert_eq!(
        host.mounts().unwrap().len(),
        staged.len() + 1,
        "published twice is mounted once"
    );
    kind.write(&volume.target, &content).unwrap();

    let reader = orchestrator.target("pvc", "second-pod").unwrap();
    let mut read_only = kind.publish(&volume, &reader);
    read_only.readonly = true;
    for _ in 0..2 {
        orchestrator.publish_as(read_only.clone()).await.unwrap();
    }
    for target in [&volume.target, &reader] {
        let found = kind.read(target, CONTENT_BYTES).unwrap();
        assert!(found == content, "other bytes at {}", target.display());
    }
    kind.write(&reader, b"more").unwrap_err();
    table.extend(too_late(&orchestrator, kind, &volume).await);

    let mounts = host.mounts().unwrap();
    orchestrator = back(&mut host).await;
    orchestrator.stage_as(kind.stage(&volume)).await.unwrap();
    orchestrator.publish_as(publish).await.unwrap();
    orchestrator.publish_as(read_only).await.unwrap();
    assert_eq!(host.mounts().unwrap(), mounts, "after a restart");
    for target in [&volume.target, &reader] {
        let found = kind.read(target, CONTENT_BYTES).unwrap();
        assert!(found == content, "other bytes after a restart");
    }
    kind.write(&reader, b"more").unwrap_err();
    table.extend(too_late(&orchestrator, kind, &volume).await);

    for _ in 0..2 {
        orchestrator
            .unpublish_at(&volume.id, &reader)
            .await
            .unwrap();
        orchestrator.unpublish(&volume).await.unwrap();
        assert!(!reader.exists() && !volume.target.exists());
    }
    let kept = loop_devices::backed_below(&pool).unwrap();
    assert_eq!(kept, devices, "it is unused, but staged");
    table.push((
        "delete while staged",
        code(&orchestrator.delete(&volume.id).await),
        Code::FailedPrecondition,
    ));
    for _ in 0..2 {
        orchestrator.unstage(&volume).await.unwrap();
    }
    assert!(host.mounts().unwrap().is_empty());
    assert_codes(&table);
    kind.set_up(&orchestrator, &volume).await.unwrap();
    let found = kind.read(&volume.target, CONTENT_BYTES).unwrap();
    assert!(found == content, "other bytes after unstage and stage");

    orchestrator.tear_down(&volume).await.unwrap();
    orchestrator.delete(&volume.id).await.unwrap();
    let known = code(&orchestrator.is_known(&volume.id).await);
    assert_eq!(known, Code::NotFound);
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_directory_lives_and_keeps_its_bytes() {
    live(Kind::Directory, None).await;
}

#[tokio::test]
async fn privileged_an_ext4_image_lives_and_keeps_its_bytes() {
    live(Kind::Filesystem("ext4"), None).await;
}

#[tokio::test]
async fn privileged_an_xfs_image_lives_and_keeps_its_bytes() {
    live(Kind::Filesystem("xfs"), None).await;
}

#[tokio::test]
async fn privileged_a_btrfs_image_lives_and_keeps_its_bytes() {
    live(Kind::Filesystem("btrfs"), None).await;
}

#[tokio::test]
async fn privileged_a_raw_block_image_lives_and_keeps_its_bytes() {
    live(Kind::Block, None).await;
}

#[tokio::test]
async fn privileged_an_ext4_image_lives_where_another_process_mounts() {
    live(Kind::Filesystem("ext4"), Some(ROOT)).await;
}

#[tokio::test]
async fn privileged_a_raw_image_works_with_a_mounter_process() {
    live(Kind::Block, Some(ROOT)).await;
}

/// Who only reads gets what was written, and cannot write through any of the mounts.
#[tokio::test]
async fn privileged_an_image_staged_read_only_is_not_written() {
    let (host, orchestrator) = serving().await;
    let content = random_bytes(CONTENT_BYTES);
    for kind in [
        Kind::Filesystem("ext4"),
        Kind::Filesystem("xfs"),
        Kind::Block,
    ] {
        let volume = kind.created(&orchestrator, "pvc").await.unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
        kind.write(&volume.target, &content).unwrap();
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();

        let reading = Some(kind.capability_in(Mode::SingleNodeReaderOnly));
        let (mut stage, mut publish) = (kind.stage(&volume), kind.publish(&volume, &volume.target));
        stage.volume_capability.clone_from(&reading);
        publish.volume_capability = reading;
        orchestrator.stage_as(stage).await.unwrap();
        orchestrator.publish_as(publish).await.unwrap();
        let found = kind.read(&volume.target, CONTENT_BYTES).unwrap();
        assert!(found == content, "{kind:?}: other bytes");
        kind.write(&volume.target, b"more").unwrap_err();
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_blank_image_is_not_formatted_for_readers() {
    let (host, orchestrator) = serving().await;
    let kind = Kind::Filesystem("ext4");
    let volume = kind.created(&orchestrator, "pvc").await.unwrap();
    let mut stage = kind.stage(&volume);
    stage.volume_capability = Some(kind.capability_in(Mode::SingleNodeReaderOnly));
    let refused = orchestrator.stage_as(stage).await;
    assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
    assert!(host.mounts().unwrap().is_empty());
    kind.set_up(&orchestrator, &volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

/// ReadWriteOncePod (CSI, SINGLE_NODE_SINGLE_WRITER): a second target is refused, the first one may be asked for again.
#[tokio::test]
async fn privileged_a_single_writers_image_has_one_target() {
    let (host, orchestrator) = serving().await;
    for kind in [Kind::Filesystem("ext4"), Kind::Block] {
        let volume = kind.created(&orchestrator, "pvc").await.unwrap();
        let single = Some(kind.capability_in(Mode::SingleNodeSingleWriter));
        let other = orchestrator.target("pvc", "second-pod").unwrap();
        let mut stage = kind.stage(&volume);
        stage.volume_capability.clone_from(&single);
        let mut publish = kind.publish(&volume, &volume.target);
        publish.volume_capability.clone_from(&single);
        let mut second = kind.publish(&volume, &other);
        second.volume_capability = single;
        orchestrator.stage_as(stage).await.unwrap();
        for _ in 0..2 {
            orchestrator.publish_as(publish.clone()).await.unwrap();
            let refused = orchestrator.publish_as(second.clone()).await;
            assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
        }
        assert!(!other.exists());
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

/// A volume that has one file system is neither mounted as, nor made into, another.
#[tokio::test]
async fn privileged_a_file_system_is_never_replaced_by_another() {
    let (host, orchestrator) = serving().await;
    let (xfs, ext4) = (Kind::Filesystem("xfs"), Kind::Filesystem("ext4"));
    let content = random_bytes(CONTENT_BYTES);
    let volume = xfs.created(&orchestrator, "pvc").await.unwrap();
    xfs.set_up(&orchestrator, &volume).await.unwrap();
    xfs.write(&volume.target, &content).unwrap();
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    let refused = orchestrator.stage_as(ext4.stage(&volume)).await;
    assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
    assert!(host.mounts().unwrap().is_empty());
    xfs.set_up(&orchestrator, &volume).await.unwrap();
    assert!(xfs.read(&volume.target, CONTENT_BYTES).unwrap() == content);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}
