//! Objects planted in a pool where an image is expected, and a kubelet directory that is itself a link.

use super::*;
use crate::volume::{Volume, mounted_as};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use wasmount_core::mounter::{PublishVolume, StageVolume, UnpublishVolume, UnstageVolume};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::AccessType;

#[test]
fn privileged_what_is_planted_in_a_pool_is_no_image() {
    privileged(async |bench| {
        let canary = Canary::plant(bench.path("outside/canary"));
        let planted = |name: &str| bench.path("pool").join(name);
        symlink(&canary.path, planted("link")).unwrap();
        symlink("../outside/canary", planted("relative")).unwrap();
        symlink(bench.path("outside"), planted("directory")).unwrap();
        symlink("link", planted("chain")).unwrap();
        run("mkfifo", &[text(&planted("pipe"))]);
        run("mknod", &[text(&planted("disk")), "b", "7", "0"]);
        run("mknod", &[text(&planted("terminal")), "c", "5", "0"]);
        let socket = UnixListener::bind(planted("socket")).unwrap();
        fs::create_dir(planted("tree")).unwrap();
        fs::write(planted("mounted"), "").unwrap();
        rustix::mount::mount_bind(&canary.path, planted("mounted")).unwrap();
        for path in [
            "link",
            "relative",
            "directory/canary",
            "chain",
            "pipe",
            "disk",
            "terminal",
            "socket",
            "tree",
            "mounted",
        ] {
            for access_type in [AccessType::Block, mounted_as("ext4")] {
                let volume = Volume::new(&bench, "v", image_at(path), access_type);
                let asked = Instant::now();
                assert_eq!(variant(volume.stage().await), "Invalid", "{path}");
                assert_eq!(
                    variant(volume.publish_plan("t", true).await),
                    "Invalid",
                    "{path}"
                );
                // The open does not wait for the other end of a pipe.
                assert!(asked.elapsed() < Duration::from_secs(5), "{path}");
            }
        }
        assert_let_go(&bench).await;
        canary.assert_unbound(&bench);
        canary.assert_untouched();
        drop(socket);
    });
}

/// Such as on nodes whose `/var/lib/kubelet` leads to another disk.
#[test]
fn privileged_a_linked_kubelet_directory_works() {
    privileged(async |bench| {
        let link = bench.path("link");
        symlink(bench.path("kubelet"), &link).unwrap();
        let images = [("ext4", mounted_as("ext4")), ("raw", AccessType::Block)];
        let mut plans = Vec::new();
        for (name, access_type) in images {
            plans.push((
                name,
                bench.image(name, 32 * MEBIBYTE).await,
                capability_of(access_type),
            ));
        }
        let mut bench = bench.with_roots(std::slice::from_ref(&link));
        for (name, plan, capability) in plans {
            let staging = link.join("stage-linked");
            let _ = fs::create_dir(&staging);
            let target = link.join("target-t");
            let stage = StageVolume {
                key: key("linked"),
                staging_path: node_path(&staging),
                capability: capability.clone(),
                plan,
                secret_options: SecretOptions::default(),
            };
            let outside = StageVolume {
                staging_path: node_path(&bench.staging("linked")),
                ..stage.clone()
            };
            assert_eq!(
                variant(bench.mounter.stage(outside).await),
                "OutsideRoots",
                "{name}"
            );
            let publish = PublishVolume {
                key: key("linked"),
                staging_path: Some(node_path(&staging)),
                target_path: node_path(&target),
                capability,
                readonly: false,
                plan: None,
                secret_options: SecretOptions::default(),
            };
            for _ in 0..2 {
                bench.mounter.stage(stage.clone()).await.unwrap();
                bench.mounter.publish(publish.clone()).await.unwrap();
            }
            // The mount table shows the real directory.
            assert_eq!(bench.mounts_at(&bench.target("t")), 1, "{name}");
            fs::remove_dir_all(bench.path("run")).unwrap();
            bench = bench.with_roots(std::slice::from_ref(&link));
            let unpublish = UnpublishVolume {
                key: key("linked"),
                target_path: node_path(&target),
            };
            let unstage = UnstageVolume {
                key: key("linked"),
                staging_path: node_path(&staging),
            };
            for _ in 0..2 {
                bench.mounter.unpublish(unpublish.clone()).await.unwrap();
                bench.mounter.unstage(unstage.clone()).await.unwrap();
            }
            bench.assert_clean();
            assert_let_go(&bench).await;
        }
    });
}

fn capability_of(access_type: AccessType) -> wasmount_core::volume::VolumeCapability {
    wasmount_core::volume::VolumeCapability {
        access_type,
        access_mode: WRITER,
    }
}
