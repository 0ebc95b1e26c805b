//! What is in use stays, whatever the plugin deletes, moves or says; what is not its own it cannot reach.

use crate::misbehave::scene::{self, Scene};
use std::fs;
use tonic::Code;
use wasmount_tests::orchestrator::code;

/// What DeleteVolume does, and its code while the volume is staged.
pub(crate) const TABLE: &[(&str, Code)] = &[
    ("behave", Code::FailedPrecondition),
    // It says that the volume is gone.
    ("delete-anyway", Code::Ok),
    ("move-away", Code::FailedPrecondition),
    ("move-and-make-anew", Code::FailedPrecondition),
    ("delete-parent", Code::InvalidArgument),
    ("delete-hosts-folder", Code::InvalidArgument),
    ("delete-in-other-pool", Code::PermissionDenied),
    ("delete-all", Code::FailedPrecondition),
];

#[test]
fn privileged_a_volume_in_use_is_not_deleted_for_a_plugin() {
    scene::run(async {
        let scene = Scene::with("").await;
        let (driver, orchestrator) = (&scene.driver, &scene.driver.orchestrator);
        for (behaviour, expected) in TABLE {
            let volume = driver.volume(&format!("{behaviour}.in-use")).await;
            orchestrator.set_up(&volume).await.unwrap();
            volume.write("precious").unwrap();
            for _ in 0..2 {
                let refused = orchestrator.delete(&volume.id).await;
                assert_eq!(code(&refused), *expected, "{behaviour}: {refused:?}");
                assert_eq!(volume.read_at(&volume.target).unwrap(), "precious");
                let tree = driver.pool.join(&volume.id);
                assert_eq!(volume.read_at(&tree).unwrap(), "precious", "{behaviour}");
            }
            assert!(driver.pool.join(".wasmount").exists(), "{behaviour}");
            orchestrator.unpublish(&volume).await.unwrap();
            orchestrator.unstage(&volume).await.unwrap();
            fs::remove_dir_all(driver.pool.join(&volume.id)).unwrap();
            scene.goes_on(behaviour).await;
        }
        scene.ends_whole().await;
    });
}
