//! Read-only volumes: whichever way a claim or a pod asks for one, a write fails with EROFS, or EPERM from a device, and the
//! bytes stay.

use crate::conformance::driver::Driver;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::{ControllerPublishVolumeRequest, NodeGetInfoRequest};
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::{Orchestrator, Volume};

/// No whole number of blocks.
const CONTENT_BYTES: usize = 70_001;

/// Who said that it is for reading.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// The pod: `readonly` of NodePublishVolume.
    Publish,
    /// The claim: its access mode.
    Mode,
    /// The persistent volume: `readonly` of ControllerPublishVolume, which the plugin passes on.
    Attach,
}

async fn set_up(driver: &Driver, kind: Kind, volume: &Volume, way: Way) {
    let orchestrator = &driver.orchestrator;
    let (mut stage, mut publish) = (kind.stage(volume), kind.publish(volume, &volume.target));
    match way {
        Way::Publish => publish.readonly = true,
        Way::Mode => {
            let capability = kind.capability_in(Mode::SingleNodeReaderOnly);
            stage.volume_capability = Some(capability.clone());
            publish.volume_capability = Some(capability);
        }
        Way::Attach => {
            let info = driver
                .clients()
                .node
                .node_get_info(NodeGetInfoRequest {})
                .await;
            let request = ControllerPublishVolumeRequest {
                volume_id: volume.id.clone(),
                node_id: info.unwrap().into_inner().node_id,
                volume_capability: Some(kind.capability()),
                readonly: true,
                ..ControllerPublishVolumeRequest::default()
            };
            let mut controller = driver.clients().controller;
            let answer = controller.controller_publish_volume(request).await.unwrap();
            let context = answer.into_inner().publish_context;
            stage.publish_context.clone_from(&context);
            publish.publish_context = context;
        }
    }
    orchestrator.stage_as(stage).await.unwrap();
    orchestrator.publish_as(publish).await.unwrap();
}

async fn take_off(driver: &Driver, volume: &Volume, way: Way) {
    let orchestrator: &Orchestrator = &driver.orchestrator;
    orchestrator.unpublish(volume).await.unwrap();
    orchestrator.unstage(volume).await.unwrap();
    if matches!(way, Way::Attach) {
        crate::conformance::attach::detach(driver, &volume.id, "")
            .await
            .unwrap();
    }
}

/// Every way to change something at a path, each with what it answered.
fn changes(kind: Kind, at: &Path) -> Vec<(&'static str, io::Result<()>)> {
    if kind == Kind::Block {
        return vec![("write", kind.write(at, b"more"))];
    }
    let data = at.join("data");
    vec![
        ("write", File::options().write(true).open(&data).map(drop)),
        ("make", File::create(at.join("new")).map(drop)),
        ("make a directory", fs::create_dir(at.join("new"))),
        ("rename", fs::rename(&data, at.join("new"))),
        ("remove", fs::remove_file(&data)),
        (
            "change the mode",
            fs::set_permissions(&data, Permissions::from_mode(0o600)),
        ),
    ]
}

async fn nothing_is_written(kind: Kind) {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let content = random_bytes(CONTENT_BYTES);
    let volume = kind.created(orchestrator, "pvc").await.unwrap();
    kind.set_up(orchestrator, &volume).await.unwrap();
    kind.write(&volume.target, &content).unwrap();
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    let refusal = match kind {
        // EPERM: the kernel opens a loop device that is read-only, and takes no write.
        Kind::Block => ErrorKind::PermissionDenied,
        _ => ErrorKind::ReadOnlyFilesystem,
    };
    for way in [Way::Publish, Way::Mode, Way::Attach] {
        set_up(&driver, kind, &volume, way).await;
        for (what, answer) in changes(kind, &volume.target) {
            let refused = answer.map_err(|error| error.kind());
            assert_eq!(refused, Err(refusal), "{kind:?} {way:?}: {what}");
        }
        let found = kind.read(&volume.target, CONTENT_BYTES).unwrap();
        assert!(found == content, "{kind:?} {way:?}: other bytes");
        take_off(&driver, &volume, way).await;
    }
    kind.set_up(orchestrator, &volume).await.unwrap();
    kind.write(&volume.target, &content).unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_read_only_directory_is_not_written() {
    nothing_is_written(Kind::Directory).await;
}

#[tokio::test]
async fn privileged_a_read_only_ext4_is_not_written() {
    nothing_is_written(Kind::Filesystem("ext4")).await;
}

#[tokio::test]
async fn privileged_a_read_only_xfs_is_not_written() {
    nothing_is_written(Kind::Filesystem("xfs")).await;
}

#[tokio::test]
async fn privileged_a_read_only_device_is_not_written() {
    nothing_is_written(Kind::Block).await;
}
