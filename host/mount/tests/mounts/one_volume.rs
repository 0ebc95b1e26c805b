//! One volume is one file system or one device, however often it is published, and whatever happened to its stage.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use wasmount_core::mounter::MountError;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::AccessMode;

const SINGLE: AccessMode = AccessMode::SingleNodeSingleWriter;

async fn remove(bench: &Bench, path: &str) -> Result<(), MountError> {
    let (pool, path) = ("main".to_owned(), path.to_owned());
    let call = if path.contains('.') {
        PoolCall::RemoveImage { pool, path }
    } else {
        PoolCall::RemoveDirectory { pool, path }
    };
    bench.mounter.pool(driver(), call).await.map(drop)
}

fn unmount_now(path: &std::path::Path) {
    // The unmount is lazy: a starting program may hold a copy of a descriptor for a moment.
    unmount(path, UnmountFlags::DETACH).unwrap();
}

/// Files in the state directory: format intents and notes.
fn state_files(bench: &Bench) -> usize {
    let files = fs::read_dir(bench.path("state/volumes")).unwrap();
    files.count()
}

#[test]
fn privileged_two_targets_without_stage_share_a_file_system() {
    privileged(async |bench| {
        let tmpfs = plan(Source::Tmpfs { size_bytes: None });
        let image = bench.image("ext4", 32 << 20).await;
        for (name, plan) in [("ext4", image), ("tmpfs", tmpfs)] {
            let volume = Volume::new(&bench, name, plan, mounted_as("ext4"));
            volume.publish_plan("a", false).await.unwrap();
            volume.publish_plan("b", true).await.unwrap();
            volume.publish_plan("c", false).await.unwrap();
            fs::write(bench.target("a").join("data"), name).unwrap();
            for target in ["b", "c"] {
                let read = fs::read_to_string(bench.target(target).join("data"));
                assert_eq!(read.unwrap(), name, "{target}");
            }
            assert!(fs::write(bench.target("b").join("more"), "x").is_err());
            for target in ["a", "b", "c"] {
                volume.unpublish(target).await.unwrap();
            }
            bench.assert_clean();
            bench.assert_no_loop_devices();
        }
    });
}

#[test]
fn privileged_two_writable_raw_targets_share_a_device() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.publish_plan("a", false).await.unwrap();
        volume.publish_plan("b", false).await.unwrap();
        bench.assert_loop_devices(1);
        volume.unpublish("a").await.unwrap();
        bench.assert_loop_devices(1);
        volume.unpublish("b").await.unwrap();
        bench.assert_clean();
        bench.assert_no_loop_devices();
    });
}

#[test]
fn privileged_one_of_two_publishes_creates_the_volume() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 32).await;
        let (first, second) = tokio::join!(
            volume.publish_plan("a", false),
            volume.publish_plan("b", false)
        );
        let done = usize::from(first.is_ok()) + usize::from(second.is_ok());
        for refused in [first, second].into_iter().filter(Result::is_err) {
            assert_eq!(variant(refused), "UnderWay");
        }
        assert!(done >= 1);
        for target in ["a", "b"] {
            volume.publish_plan(target, false).await.unwrap();
        }
        fs::write(bench.target("a").join("data"), "x").unwrap();
        assert!(bench.target("b").join("data").exists());
        for target in ["a", "b"] {
            volume.unpublish(target).await.unwrap();
        }
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_stage_beside_a_target_shows_the_same() {
    privileged(async |bench| {
        for (name, plan) in [
            ("ext4", bench.image("ext4", 32 << 20).await),
            ("tree", tree("tree")),
        ] {
            if name == "tree" {
                bench.volume("tree");
            }
            let volume = Volume::new(&bench, name, plan, mounted_as("ext4"));
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            unmount_now(&bench.staging(name));
            fs::write(bench.target("a").join("data"), "x").unwrap();
            volume.stage().await.unwrap();
            volume.publish("b").await.unwrap();
            assert_eq!(
                fs::read_to_string(bench.target("b").join("data")).unwrap(),
                "x"
            );
            volume.end(&["a", "b"]).await;
        }
    });
}

#[test]
fn privileged_another_source_is_not_staged_beside_a_target() {
    privileged(async |bench| {
        bench.volume("v").volume("w");
        let volume = Volume::new(&bench, "v", tree("v"), mounted_as("ext4"));
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        unmount_now(&bench.staging("v"));
        let other = Volume {
            plan: tree("w"),
            ..volume.clone()
        };
        assert_eq!(variant(other.stage().await), "OtherwiseThere");
        volume.unpublish("a").await.unwrap();
        other.stage().await.unwrap();
        other.end(&[]).await;
    });
}

#[test]
fn privileged_a_published_source_is_not_removed() {
    privileged(async |bench| {
        let mut bench = bench;
        for (name, path) in [("tree", "tree"), ("ext4", "ext4.img")] {
            let plan: Plan = if name == "tree" {
                bench.volume("tree");
                tree("tree")
            } else {
                bench.image("ext4", 32 << 20).await
            };
            let volume = Volume::new(&bench, name, plan.clone(), mounted_as("ext4"));
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            unmount_now(&bench.staging(name));
            bench = bench.restarted();
            bench.mounter.recover(key(name)).await.unwrap();
            for _ in 0..2 {
                assert_eq!(variant(remove(&bench, path).await), "InUse", "{name}");
            }
            let volume = Volume::new(&bench, name, plan, mounted_as("ext4"));
            volume.end(&["a"]).await;
            remove(&bench, path).await.unwrap();
        }
    });
}

#[test]
fn privileged_a_source_is_in_use_from_the_first_stage_step() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "xfs", 1024).await;
        // While `mkfs` runs on it.
        let (staged, removed) = tokio::join!(volume.stage(), async {
            // The record is in effect a moment after its file is there.
            while bench.mounter.volumes_in_use(driver()).await == Ok(Vec::new()) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            remove(&bench, "v.img").await
        });
        assert_eq!(variant(removed), "InUse");
        // A stage that meets the removal while that looks for users is refused, and repeated by its client.
        if staged.is_err() {
            assert_eq!(variant(staged), "UnderWay");
            volume.stage().await.unwrap();
        }
        volume.end(&[]).await;
    });
}

#[test]
fn privileged_a_failed_stage_leaves_no_record_behind() {
    privileged(async |bench| {
        let missing = Volume::new(&bench, "v", tree("none"), mounted_as("ext4"));
        assert_eq!(variant(missing.stage().await), "NotFound");
        bench.assert_clean();
        assert_eq!(state_files(&bench), 0);
    });
}

#[test]
fn privileged_a_mount_made_read_only_is_reported() {
    privileged(async |bench| {
        bench.volume("v");
        let volume = Volume::new(&bench, "v", tree("v"), mounted_as("ext4"));
        volume.stage().await.unwrap();
        let flags = rustix::mount::MountFlags::BIND | rustix::mount::MountFlags::RDONLY;
        rustix::mount::mount_remount(bench.staging("v"), flags, "").unwrap();
        assert_eq!(variant(volume.stage().await), "Unusable");
        assert_eq!(variant(volume.publish("a").await), "Unusable");
        volume.end(&[]).await;
    });
}

#[test]
fn privileged_a_lost_journal_keeps_published_volumes_staged() {
    privileged(async |bench| {
        let mut bench = bench;
        for (form, mebibytes) in [("ext4", 32), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            let (plan, access_type) = (volume.plan.clone(), volume.access_type.clone());
            volume.stage_as(SINGLE).await.unwrap();
            volume.publish_as("a", SINGLE, false).await.unwrap();
            bench = bench.without_journal();
            let volume = Volume::new(&bench, form, plan, access_type);
            assert_eq!(variant(volume.unstage().await), "InUse", "{form}");
            volume.stage_as(SINGLE).await.unwrap();
            let second = volume.publish_as("b", SINGLE, false).await;
            assert_eq!(variant(second), "InUse", "{form}");
            volume.publish_as("a", SINGLE, false).await.unwrap();
            volume.end(&["a"]).await;
        }
    });
}

#[test]
fn privileged_unstage_of_another_path_keeps_a_raw_volume() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.stage().await.unwrap();
        let elsewhere = bench.path("kubelet").join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let unstage = wasmount_core::mounter::UnstageVolume {
            key: key("v"),
            staging_path: node_path(&elsewhere),
        };
        bench.mounter.unstage(unstage).await.unwrap();
        assert_eq!(bench.mounter.notes(key("v")).await.unwrap().len(), 1);
        volume.publish("a").await.unwrap();
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_a_removed_read_only_target_leaves_no_device() {
    privileged(async |bench| {
        let mut bench = bench;
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        let plan = volume.plan.clone();
        volume.stage().await.unwrap();
        volume.publish_as("ro", WRITER, true).await.unwrap();
        bench.assert_loop_devices(2);
        unmount_now(&bench.target("ro"));
        volume.publish_as("ro", WRITER, true).await.unwrap();
        bench.assert_loop_devices(2);
        unmount_now(&bench.target("ro"));
        bench = bench.restarted();
        bench.mounter.recover(key("v")).await.unwrap();
        bench.assert_loop_devices(1);
        let volume = Volume::new(&bench, "v", plan, volume_type());
        volume.end(&["ro"]).await;
    });
}

fn volume_type() -> wasmount_core::volume::AccessType {
    wasmount_core::volume::AccessType::Block
}

#[test]
fn privileged_a_target_of_a_reused_device_is_not_the_volume() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        bench.detach_loop_devices();
        // The other volume most likely takes the number; in any case the node at the target is then not the staged device.
        let other = Volume::of_image(&bench, "w", "raw", 1).await;
        other.stage().await.unwrap();
        volume.stage().await.unwrap();
        let again = volume.publish("a").await;
        let node = fs::metadata(bench.target("a")).unwrap();
        let staged = bench.loop_of("v.img");
        use std::os::unix::fs::MetadataExt;
        assert_eq!(again.is_ok(), node.rdev() == staged, "{again:?}");
        volume.unpublish("a").await.unwrap();
        other.unstage().await.unwrap();
        volume.end(&[]).await;
    });
}
