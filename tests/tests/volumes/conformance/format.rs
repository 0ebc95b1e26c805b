//! Formatting: a blank image becomes the file system that was asked for, once; what is not blank is left as it is, whatever it is.

use crate::conformance::driver::{Driver, mounted_at};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::AccessType;
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::{Volume, code};
use xtask::command;

/// The word that makes a block device one of LVM's, and where it stands: the second sector.
const LVM: (u64, &[u8]) = (512, b"LABELONE\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001");

/// Puts something on a device.
type Put = fn(&Path);

/// What a device may contain.
const FOREIGN: [(&str, Put); 5] = [
    ("a partition table", |device| {
        tool("sfdisk", &["-q"], device, "label: gpt\n")
    }),
    ("swap", |device| tool("mkswap", &["-q"], device, "")),
    ("another file system", |device| {
        tool("mkfs.xfs", &["-q"], device, "")
    }),
    ("a part of a volume group", |device| {
        write(device, LVM.0, LVM.1)
    }),
    ("an encrypted device", |device| {
        write(device, 0, b"LUKS\xba\xbe\0\x02")
    }),
];

fn tool(name: &str, arguments: &[&str], device: &Path, input: &str) {
    let script = format!("printf '{input}' | \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, name]).args(arguments);
    command::read(shell.arg(device)).unwrap();
}

fn write(device: &Path, offset: u64, bytes: &[u8]) {
    let device = std::fs::File::options().write(true).open(device).unwrap();
    device.write_all_at(bytes, offset).unwrap();
    device.sync_all().unwrap();
}

/// Everything on a volume, as a pod sees it that has it as a device.
async fn bytes(driver: &Driver, volume: &Volume, length: i64) -> Vec<u8> {
    let orchestrator = &driver.orchestrator;
    Kind::Block.set_up(orchestrator, volume).await.unwrap();
    let length = usize::try_from(length).unwrap();
    let bytes = Kind::Block.read(&volume.target, length).unwrap();
    orchestrator.unpublish(volume).await.unwrap();
    orchestrator.unstage(volume).await.unwrap();
    bytes
}

/// As the kernel and blkid name it.
fn file_system(volume: &Volume) -> (String, String) {
    let line = mounted_at(&volume.target);
    let fields: Vec<_> = line.split(' ').collect();
    let end = fields.len();
    let (fs_type, device) = (fields[end - 3].to_owned(), fields[end - 2]);
    let mut blkid = Command::new("blkid");
    blkid.args(["-p", "-s", "UUID", "-o", "value", device]);
    (fs_type, command::read(&mut blkid).unwrap())
}

#[tokio::test]
async fn privileged_an_image_gets_and_keeps_the_requested_type() {
    let mut driver = Driver::serving().await;
    for (asked, made) in [
        ("ext4", "ext4"),
        ("xfs", "xfs"),
        ("btrfs", "btrfs"),
        ("", "ext4"),
    ] {
        let kind = Kind::Filesystem(asked);
        let name = format!("pvc-{asked}");
        let volume = kind.created(&driver.orchestrator, &name).await.unwrap();
        kind.set_up(&driver.orchestrator, &volume).await.unwrap();
        let content = random_bytes(1000);
        kind.write(&volume.target, &content).unwrap();
        let first = file_system(&volume);
        assert_eq!(first.0, made);
        for is_killed in [false, true] {
            driver.orchestrator.unpublish(&volume).await.unwrap();
            driver.orchestrator.unstage(&volume).await.unwrap();
            if is_killed {
                driver.kill_and_restart().await;
            }
            kind.set_up(&driver.orchestrator, &volume).await.unwrap();
            assert_eq!(file_system(&volume), first);
            assert!(kind.read(&volume.target, content.len()).unwrap() == content);
        }
        driver.orchestrator.tear_down(&volume).await.unwrap();
    }
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_what_is_not_blank_is_refused_and_not_touched() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let kind = Kind::Filesystem("ext4");
    for (number, (what, put)) in FOREIGN.into_iter().enumerate() {
        // Of a size that every one of them fits on.
        let mut request = kind.create(&format!("pvc-{number}"));
        request.capacity_range = Some(wasmount_tests::requests::at_least(
            Kind::Filesystem("xfs").bytes(),
        ));
        let (id, size) = orchestrator.create(request).await.unwrap();
        let volume = orchestrator.place(&format!("pvc-{number}"), id).unwrap();
        Kind::Block.set_up(orchestrator, &volume).await.unwrap();
        put(&volume.target);
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
        let before = bytes(&driver, &volume, size).await;
        assert!(before.iter().any(|byte| *byte != 0), "{what} is not there");
        for _ in 0..2 {
            let refused = orchestrator.stage_as(kind.stage(&volume)).await;
            assert_eq!(
                code(&refused),
                Code::FailedPrecondition,
                "{what}: {refused:?}"
            );
        }
        assert!(
            bytes(&driver, &volume, size).await == before,
            "{what} was written"
        );
        orchestrator.tear_down(&volume).await.unwrap();
    }
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_an_unknown_file_system_is_rejected() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let kind = Kind::Filesystem("ext4");
    let volume = kind.created(orchestrator, "pvc").await.unwrap();
    for fs_type in ["vfat", "ext5", "../ext4", "proc", "tmpfs", "overlay"] {
        let mut stage = kind.stage(&volume);
        let capability = stage.volume_capability.as_mut().unwrap();
        if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
            fs_type.clone_into(&mut mount.fs_type);
        }
        let refused = orchestrator.stage_as(stage).await;
        assert_eq!(
            code(&refused),
            Code::InvalidArgument,
            "{fs_type}: {refused:?}"
        );
    }
    assert!(
        bytes(&driver, &volume, kind.bytes())
            .await
            .iter()
            .all(|byte| *byte == 0)
    );
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}
