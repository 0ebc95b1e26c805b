//! Failures whose cause is a request, a secret or the content of a volume, on a version that stands trial: they take no version back. Beside
//! them the same version's own faults, which do.

use crate::swaps::scene::{DRIVER, Scene};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::collections::BTreeMap;
use std::path::Path;
use tonic::{Code, Status};
use wasmount_control::messages::{DriverReport, Phase, Swap};
use wasmount_csi::wire::csi::v1::volume_capability::AccessType;
use wasmount_csi::wire::csi::v1::{NodeStageVolumeRequest, VolumeCapability};
use wasmount_tests::copies;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code, patiently};
use wasmount_tests::requests;

/// Three faults end a trial; no test is as long as the window.
const TRIAL: &str = "  versions: { rollback: { faults: 3, window: 10m } }\n";
/// More than those.
const FAILURES: usize = 5;
/// Levels of directories that a copy takes.
const COPIED_DEPTH: usize = 200;

/// Swaps to a second version, which then stands trial.
async fn on_trial(scene: &Scene, plugin: &str) -> Orchestrator {
    let swap = Swap {
        allow_service_change: true,
        plugin: Some(scene.build(plugin, "second")),
        ..Swap::default()
    };
    scene.client.swap(DRIVER, &swap).await.unwrap();
    scene.host.orchestrator().await.unwrap()
}

async fn volume(orchestrator: &Orchestrator, name: &str) -> Volume {
    let request = requests::create(name, 1 << 20);
    let (id, _) = orchestrator.create(request).await.unwrap();
    orchestrator.place(name, id).unwrap()
}

fn of_type(fs_type: &str) -> VolumeCapability {
    let mut capability = requests::capability();
    if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
        mount.fs_type = fs_type.to_owned();
    }
    capability
}

fn behaving(volume: &Volume, behaviour: &str) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_context: BTreeMap::from([("behaviour".to_owned(), behaviour.to_owned())]),
        ..requests::stage(&volume.id, &volume.staging)
    }
}

/// The version on trial serves on, and nothing was counted against it.
fn assert_stays(status: &DriverReport) {
    assert_ne!(status.status.phase, Phase::RolledBack, "{status:#?}");
    assert_eq!(
        status.status.version.as_ref().unwrap().number,
        2,
        "{status:#?}"
    );
    assert_eq!(status.faults, 0, "{status:#?}");
}

fn assert_refused(refused: Result<(), Status>, expected: Code) {
    let status = refused.unwrap_err();
    assert_eq!(status.code(), expected, "{status}");
}

#[tokio::test]
async fn privileged_a_file_system_of_a_request_rolls_nothing_back() {
    let scene = Scene::with(TRIAL).await;
    let orchestrator = on_trial(&scene, "directory").await;
    for number in 0..FAILURES {
        let volume = volume(&orchestrator, &format!("pvc-{number}")).await;
        let stage = NodeStageVolumeRequest {
            volume_capability: Some(of_type("no/type")),
            ..requests::stage(&volume.id, &volume.staging)
        };
        let refused = orchestrator.stage_as(stage).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(!refused.message().contains("plugin"), "{refused}");
        // As it should be, it is staged.
        orchestrator.set_up(&volume).await.unwrap();
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_stays(&scene.status().await);
    scene.nothing_is_left();
}

#[tokio::test]
async fn privileged_a_bad_plan_rolls_back_a_missing_secret_does_not() {
    let scene = Scene::with(TRIAL).await;
    let orchestrator = on_trial(&scene, "misbehave").await;
    let mut volumes = Vec::new();
    for number in 0..FAILURES {
        let volume = volume(&orchestrator, &format!("behave.pvc-{number}")).await;
        let stage = behaving(&volume, "unknown-secret");
        assert_refused(orchestrator.stage_as(stage).await, Code::InvalidArgument);
        volumes.push(volume);
    }
    assert_stays(&scene.status().await);
    // What the plugin's plan does by itself counts, volume by volume.
    for volume in volumes.iter().take(3) {
        let stage = behaving(volume, "pool-not-granted");
        assert_refused(orchestrator.stage_as(stage).await, Code::PermissionDenied);
    }
    let back = scene
        .until("it is rolled back", |it| {
            it.status.phase == Phase::RolledBack
        })
        .await;
    assert_eq!(back.status.version.unwrap().number, 1);
    scene.host.abandon().unwrap();
}

#[tokio::test]
async fn privileged_one_volume_alone_rolls_nothing_back_beside_others() {
    let scene = Scene::with(TRIAL).await;
    let orchestrator = on_trial(&scene, "misbehave").await;
    let sound = volume(&orchestrator, "behave.sound").await;
    orchestrator.stage(&sound).await.unwrap();
    let poisoned = volume(&orchestrator, "behave.poisoned").await;
    for _ in 0..FAILURES {
        let stage = behaving(&poisoned, "trap");
        assert_refused(orchestrator.stage_as(stage).await, Code::Internal);
    }
    let status = scene.status().await;
    assert_ne!(status.status.phase, Phase::RolledBack, "{status:#?}");
    // A second and a third volume are no accident.
    for name in ["behave.second", "behave.third"] {
        let stage = behaving(&volume(&orchestrator, name).await, "trap");
        assert_refused(orchestrator.stage_as(stage).await, Code::Internal);
    }
    scene
        .until("it is rolled back", |it| {
            it.status.phase == Phase::RolledBack
        })
        .await;
    // The version before offers more, so the connections of its clients end.
    let orchestrator = scene.host.orchestrator().await.unwrap();
    orchestrator.unstage(&sound).await.unwrap();
    scene.host.abandon().unwrap();
}

#[tokio::test]
async fn privileged_a_tree_too_deep_to_copy_rolls_nothing_back() {
    let scene = Scene::serving("hostpath", TRIAL).await;
    let orchestrator = on_trial(&scene, "hostpath").await;
    let mut request = requests::create("pvc-1", 1 << 20);
    request.parameters = BTreeMap::from([("kind".to_owned(), "directory".to_owned())]);
    let (id, _) = orchestrator.create(request).await.unwrap();
    let volume = orchestrator.place("pvc-1", id).unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    grow_too_deep(&volume.target);
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    for number in 0..FAILURES {
        let name = format!("snapshot-{number}");
        let made = patiently(&[Code::Aborted], || {
            copies::snapshot(&orchestrator, &volume.id, &name)
        });
        let refused = made.await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented, "{refused}");
        assert!(
            refused.message().contains("200 directories deep"),
            "{refused}"
        );
    }
    assert_stays(&scene.status().await);
    assert_eq!(code(&orchestrator.delete(&volume.id).await), Code::Ok);
    scene.nothing_is_left();
}

/// Makes a tree that is deeper, and whose paths are longer, than a copy takes.
fn grow_too_deep(root: &Path) {
    let name = "d".repeat(255);
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..=COPIED_DEPTH {
        mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = openat(&at, &name, flags, Mode::empty()).unwrap();
    }
}
