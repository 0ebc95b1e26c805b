//! `before-unstage` that fails, traps, hangs: the volume goes from the node all the same.

use crate::misbehave::scene::{self, Scene};
use std::fs;
use tonic::Code;
use wasmount_tests::orchestrator::code;

/// What the hook does, and what NodeUnstageVolume answers, call by call.
pub(crate) const TABLE: &[(&str, &[Code])] = &[
    // The plugin says no, and is asked three times.
    ("error", &[Code::OutOfRange, Code::OutOfRange, Code::Ok]),
    ("long-error", &[Code::Internal, Code::Internal, Code::Ok]),
    (
        "state-on-node",
        &[Code::FailedPrecondition, Code::FailedPrecondition, Code::Ok],
    ),
    // It is broken: once is enough.
    ("trap", &[Code::Ok]),
    ("spin", &[Code::Ok]),
    ("sleep", &[Code::Ok]),
    ("allocate", &[Code::Ok]),
    ("step-outside", &[Code::Ok]),
    ("secret-in-panic", &[Code::Ok]),
];

#[test]
fn privileged_a_hook_that_fails_for_ever_holds_no_volume() {
    scene::run(async {
        let scene = Scene::with("").await;
        let driver = &scene.driver;
        for (behaviour, expected) in TABLE {
            let volume = driver.volume(&format!("{behaviour}.unstaged")).await;
            driver.orchestrator.set_up(&volume).await.unwrap();
            driver.orchestrator.unpublish(&volume).await.unwrap();
            let mut codes = Vec::new();
            while codes.len() < expected.len() {
                let request = wasmount_tests::requests::unstage(&volume.id, &volume.staging);
                let mut node = driver.orchestrator.clients().node;
                codes.push(code(&driver.keep(node.node_unstage_volume(request).await)));
            }
            assert_eq!(codes, *expected, "{behaviour}");
            assert!(!scene.host.mounts().unwrap().contains(&volume.staging));
            // The plugin would misbehave in DeleteVolume as well.
            fs::remove_dir(driver.pool.join(&volume.id)).unwrap();
            scene.goes_on(behaviour).await;
        }
        scene.ends_whole().await;
    });
}
