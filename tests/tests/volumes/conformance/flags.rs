//! Mount flags: each one that a claim names is there where the pod sees its volume, and does what it is for. Which flags are refused is told
//! by the attacks on them.

use crate::conformance::driver::{Driver, options_at};
use rustix::fs::{CWD, FileType, mknodat};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use tonic::Code;
use wasmount_csi::wire::csi::v1::VolumeCapability;
use wasmount_csi::wire::csi::v1::volume_capability::AccessType;
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};

/// A flag of a claim, and how the kernel names it once it is set.
type Flag = (&'static str, &'static str);

/// Of every file system.
const COMMON: [Flag; 7] = [
    ("noatime", "noatime"),
    ("relatime", "relatime"),
    ("nodiratime", "nodiratime"),
    ("nodev", "nodev"),
    ("noexec", "noexec"),
    ("nosuid", "nosuid"),
    ("ro", "ro"),
];

/// Of a file system's own.
const OWN: [(&str, &[Flag]); 3] = [
    (
        "ext4",
        &[
            ("discard", "discard"),
            ("commit=30", "commit=30"),
            ("sync", "sync"),
        ],
    ),
    (
        "xfs",
        &[
            ("largeio", "largeio"),
            ("nouuid", "nouuid"),
            ("discard", "discard"),
        ],
    ),
    (
        "btrfs",
        &[
            ("compress=zstd", "compress=zstd:3"),
            ("flushoncommit", "flushoncommit"),
        ],
    ),
];

fn flagged(kind: Kind, flags: &[&str]) -> Option<VolumeCapability> {
    let mut capability = kind.capability();
    if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
        mount.mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }
    Some(capability)
}

async fn set_up(orchestrator: &Orchestrator, kind: Kind, volume: &Volume, flags: &[&str]) {
    let mut stage = kind.stage(volume);
    stage.volume_capability = flagged(kind, flags);
    orchestrator.stage_as(stage).await.unwrap();
    let mut publish = kind.publish(volume, &volume.target);
    publish.volume_capability = flagged(kind, flags);
    orchestrator.publish_as(publish).await.unwrap();
}

async fn take_off(orchestrator: &Orchestrator, volume: &Volume) {
    orchestrator.unpublish(volume).await.unwrap();
    orchestrator.unstage(volume).await.unwrap();
}

#[tokio::test]
async fn privileged_every_mount_flag_is_there_where_the_pod_looks() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    for (fs_type, own) in OWN {
        let kind = Kind::Filesystem(fs_type);
        let volume = kind.created(orchestrator, fs_type).await.unwrap();
        // Blank, it is not made for readers.
        kind.set_up(orchestrator, &volume).await.unwrap();
        take_off(orchestrator, &volume).await;
        for (flag, name) in COMMON.iter().chain(own) {
            set_up(orchestrator, kind, &volume, &[flag]).await;
            let options = options_at(&volume.target);
            assert!(
                options.iter().any(|it| it == name),
                "{fs_type} {flag}: {options:?}"
            );
            take_off(orchestrator, &volume).await;
        }
        orchestrator.tear_down(&volume).await.unwrap();
    }
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_flags_of_a_directory_hold_for_its_mount() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let kind = Kind::Directory;
    let volume = kind.created(orchestrator, "pvc").await.unwrap();
    for (flag, name) in COMMON {
        set_up(orchestrator, kind, &volume, &[flag]).await;
        let options = options_at(&volume.target);
        assert!(options.iter().any(|it| it == name), "{flag}: {options:?}");
        take_off(orchestrator, &volume).await;
    }
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_flags_do_what_they_are_for() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    for kind in [Kind::Filesystem("ext4"), Kind::Directory] {
        let volume = kind.created(orchestrator, "pvc").await.unwrap();
        set_up(orchestrator, kind, &volume, &["noexec", "noatime"]).await;

        let program = volume.target.join("program");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let refused = Command::new(&program).status().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);

        let device = volume.target.join("device");
        let zero = fs::metadata("/dev/zero").unwrap().rdev();
        mknodat(CWD, &device, FileType::CharacterDevice, 0o666.into(), zero).unwrap();
        let refused = fs::read(&device).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);

        let read_at = || {
            fs::metadata(&program)
                .map(|it| (it.atime(), it.atime_nsec()))
                .unwrap()
        };
        let before = read_at();
        fs::read(&program).unwrap();
        assert_eq!(read_at(), before);
        orchestrator.tear_down(&volume).await.unwrap();
    }
    driver.assert_nothing_left();
}

/// What is staged one way is not what is asked for another way: kubelet must hear of it.
#[tokio::test]
async fn privileged_other_mount_flags_are_another_capability() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let kind = Kind::Filesystem("ext4");
    let volume = kind.created(orchestrator, "pvc").await.unwrap();
    let stage = |flags: &[&str]| {
        let mut stage = kind.stage(&volume);
        stage.volume_capability = flagged(kind, flags);
        orchestrator.stage_as(stage)
    };
    stage(&["noatime", "nodev"]).await.unwrap();
    stage(&["noatime", "nodev"]).await.unwrap();
    for other in [&["noatime"][..], &["noatime", "noexec"], &[]] {
        let refused = stage(other).await;
        assert_eq!(code(&refused), Code::AlreadyExists, "{other:?}");
    }
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}
