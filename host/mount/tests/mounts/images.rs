//! Images of a pool beyond the normal lifecycle: one image for one volume, lost journals, clones side by side, groups, and storage that disappears
//! below a mount.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Source;
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess};

const FORMS: [(&str, u64); 4] = [("ext4", 32), ("xfs", 300), ("btrfs", 128), ("raw", 16)];
const MEBIBYTE: u64 = 1 << 20;

async fn pool_call(bench: &Bench, call: PoolCall) -> Result<(), MountError> {
    bench.mounter.pool(driver(), call).await.map(drop)
}

#[test]
fn privileged_an_image_of_one_volume_is_refused_to_another() {
    privileged(async |bench| {
        for (form, mebibytes) in FORMS {
            let first = Volume::of_image(&bench, form, form, mebibytes).await;
            first.stage().await.unwrap();
            let second = Volume {
                name: "second",
                ..Volume::new(
                    &bench,
                    "second",
                    first.plan.clone(),
                    first.access_type.clone(),
                )
            };
            assert_eq!(variant(second.stage().await), "InUse", "{form}");
            first.end(&[]).await;
            second.stage().await.unwrap();
            second.end(&[]).await;
        }
    });
}

#[test]
fn privileged_without_its_journal_a_staged_image_is_known_again() {
    privileged(async |bench| {
        let mut bench = bench;
        for (form, mebibytes) in FORMS {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            let (plan, access_type) = (volume.plan.clone(), volume.access_type.clone());
            volume.stage().await.unwrap();
            let mounts = bench.mounts();
            let devices = bench.loop_devices();
            bench = bench.without_journal();
            let volume = Volume::new(&bench, form, plan, access_type);
            volume
                .stage()
                .await
                .unwrap_or_else(|error| panic!("{form}: {error}"));
            assert_eq!(bench.mounts(), mounts, "{form}");
            bench.assert_loop_devices(devices);
            volume.publish("a").await.unwrap();
            volume.end(&["a"]).await;
        }
    });
}

#[test]
fn privileged_an_image_without_journal_is_torn_down() {
    privileged(async |bench| {
        let mut bench = bench;
        for (form, mebibytes) in FORMS {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            let (plan, access_type) = (volume.plan.clone(), volume.access_type.clone());
            volume.stage().await.unwrap();
            volume.publish("rw").await.unwrap();
            volume.publish_as("ro", WRITER, true).await.unwrap();
            bench = bench.without_journal();
            let volume = Volume::new(&bench, form, plan, access_type);
            let remove = PoolCall::RemoveImage {
                pool: "main".to_owned(),
                path: format!("{form}.img"),
            };
            assert_eq!(
                variant(pool_call(&bench, remove.clone()).await),
                "InUse",
                "{form}"
            );
            volume.end(&["rw", "ro"]).await;
            pool_call(&bench, remove).await.unwrap();
        }
    });
}

#[test]
fn privileged_a_staged_image_is_neither_removed_nor_renamed() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.stage().await.unwrap();
        let (pool, path) = ("main".to_owned(), "v.img".to_owned());
        let rename = PoolCall::Rename {
            pool: pool.clone(),
            source: path.clone(),
            target: "w.img".to_owned(),
        };
        assert_eq!(variant(pool_call(&bench, rename).await), "InUse");
        let remove = PoolCall::RemoveImage { pool, path };
        assert_eq!(variant(pool_call(&bench, remove.clone()).await), "InUse");
        volume.end(&[]).await;
        pool_call(&bench, remove).await.unwrap();
    });
}

#[test]
fn privileged_a_detached_raw_device_is_staged_anew() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.stage().await.unwrap();
        bench.detach_loop_devices();
        assert_eq!(variant(volume.publish("a").await), "NotStaged");
        let unsettled = bench.mounter.unsettled(driver()).await.unwrap();
        assert_eq!(unsettled, [key("v").volume]);
        bench.mounter.recover(key("v")).await.unwrap();
        assert_eq!(bench.journal_files(), Vec::<std::path::PathBuf>::new());
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        assert_eq!(bench.mounter.unsettled(driver()).await.unwrap(), []);
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_interrupted_raw_stages_are_recovered() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        volume.stage().await.unwrap();
        let plan = volume.plan.clone();
        let mut bench = bench;
        for progress in ["Coming", "Going"] {
            bench.edit_journal("\"Settled\"", &format!("\"{progress}\""));
            bench = bench.restarted();
            let unsettled = bench.mounter.unsettled(driver()).await.unwrap();
            assert_eq!(unsettled, [key("v").volume], "{progress}");
            bench.mounter.recover(key("v")).await.unwrap();
            bench.assert_clean();
            bench.assert_no_loop_devices();
            Volume::new(&bench, "v", plan.clone(), AccessType::Block)
                .stage()
                .await
                .unwrap();
        }
        Volume::new(&bench, "v", plan, AccessType::Block)
            .end(&[])
            .await;
    });
}

#[test]
fn privileged_a_clone_is_mounted_beside_its_source() {
    privileged(async |bench| {
        for (form, mebibytes) in FORMS {
            let source = Volume::of_image(&bench, form, form, mebibytes).await;
            source.stage().await.unwrap();
            source.unstage().await.unwrap();
            let (pool, target) = ("main".to_owned(), format!("{form}-clone.img"));
            let clone = PoolCall::CloneImage {
                pool: pool.clone(),
                source: format!("{form}.img"),
                target: target.clone(),
            };
            pool_call(&bench, clone).await.unwrap();
            let plan = plan(Source::Image { pool, path: target });
            let clone = Volume::new(&bench, "clone", plan, source.access_type.clone());
            source.stage().await.unwrap();
            clone
                .stage()
                .await
                .unwrap_or_else(|error| panic!("{form}: {error}"));
            clone.unstage().await.unwrap();
            source.end(&[]).await;
        }
    });
}

#[test]
fn privileged_an_existing_file_system_beats_a_default() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "xfs", 300).await;
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        fs::write(bench.target("a").join("data"), "kept").unwrap();
        volume.end(&["a"]).await;
        let named = volume.with(mounted_as("ext4"));
        assert_eq!(variant(named.stage().await), "Unusable");
        let mut default = volume.with(AccessType::Mount(MountAccess::default()));
        default.plan.default_fs_type = Some("ext4".to_owned());
        default.stage().await.unwrap();
        default.publish("a").await.unwrap();
        assert_eq!(
            fs::read_to_string(bench.target("a").join("data")).unwrap(),
            "kept"
        );
        default.end(&["a"]).await;
    });
}

#[test]
fn privileged_a_volume_mount_group_can_use_trees_and_images() {
    privileged(async |bench| {
        let grouped = |group: &str| {
            AccessType::Mount(MountAccess {
                volume_mount_group: Some(group.to_owned()),
                ..MountAccess::default()
            })
        };
        fs::create_dir(bench.path("pool").join("tree")).unwrap();
        fs::write(bench.path("pool").join("tree/data"), "x").unwrap();
        let image = bench.image("image", 32 * MEBIBYTE).await;
        for (name, plan) in [("tree", tree("tree")), ("image", image)] {
            let volume = Volume::new(&bench, name, plan, grouped("4321"));
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            let root = fs::metadata(bench.target("a")).unwrap();
            assert_eq!((root.gid(), root.mode() & 0o2070), (4321, 0o2070), "{name}");
            if name == "tree" {
                let file = fs::metadata(bench.target("a").join("data")).unwrap();
                assert_eq!((file.gid(), file.mode() & 0o060), (4321, 0o060));
            }
            File::create(bench.target("a").join("more")).unwrap();
            let inherited = fs::metadata(bench.target("a").join("more")).unwrap();
            assert_eq!(inherited.gid(), 4321, "{name}");
            volume.with(grouped("4322")).publish("b").await.unwrap();
            assert_eq!(
                fs::metadata(bench.target("b")).unwrap().gid(),
                4322,
                "{name}"
            );
            let none = volume.with(grouped("wheel"));
            assert_eq!(variant(none.publish("c").await), "Invalid", "{name}");
            volume.end(&["a", "b"]).await;
        }
    });
}

#[test]
fn privileged_a_removed_image_blocks_neither_stats_nor_teardown() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 32), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            // Reads after the end return nothing.
            let image = bench.path("pool").join(format!("{form}.img"));
            File::options()
                .write(true)
                .open(&image)
                .unwrap()
                .set_len(0)
                .unwrap();
            fs::remove_file(&image).unwrap();
            // Correct or refused: a superblock that is in memory is still reported.
            let stats = volume.stats("a").await;
            assert!(!matches!(stats, Err(MountError::Hung { .. })), "{form}");
            volume.end(&["a"]).await;
        }
    });
}

#[test]
fn privileged_what_is_no_image_is_refused() {
    privileged(async |bench| {
        let pool = bench.path("pool");
        fs::create_dir(pool.join("tree")).unwrap();
        fs::write(bench.path("outside").join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(bench.path("outside").join("secret"), pool.join("link"))
            .unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pool.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for (path, expected) in [
            ("tree", "Invalid"),
            ("link", "Invalid"),
            ("pipe", "Invalid"),
            ("none", "NotFound"),
            ("../outside/secret", "Invalid"),
        ] {
            let plan = plan(Source::Image {
                pool: "main".to_owned(),
                path: path.to_owned(),
            });
            for access_type in [AccessType::Block, mounted_as("ext4")] {
                let volume = Volume::new(&bench, "v", plan.clone(), access_type);
                assert_eq!(variant(volume.stage().await), expected, "{path}");
            }
        }
        bench.assert_clean();
        bench.assert_no_loop_devices();
    });
}

#[test]
fn privileged_a_plan_must_suit_the_access_type() {
    privileged(async |bench| {
        bench.volume("tree");
        let tree = Volume::new(&bench, "tree", tree("tree"), AccessType::Block);
        assert_eq!(variant(tree.stage().await), "Invalid");
        let raw = Volume::of_image(&bench, "raw", "raw", 1).await;
        raw.stage().await.unwrap();
        let mounted = raw.with(mounted_as("ext4"));
        assert_eq!(variant(mounted.publish("a").await), "OtherwiseThere");
        fs::create_dir(bench.target("a")).unwrap();
        assert_eq!(variant(raw.publish("a").await), "OtherwiseThere");
        // The undo removed the empty target: it is created again in any case.
        assert!(!bench.target("a").exists());
        fs::write(bench.target("a"), "content").unwrap();
        assert_eq!(variant(raw.publish("a").await), "OtherwiseThere");
        fs::write(bench.target("a"), "").unwrap();
        raw.publish("a").await.unwrap();
        let single = raw
            .publish_as("b", AccessMode::SingleNodeSingleWriter, false)
            .await;
        assert_eq!(variant(single), "InUse");
        raw.end(&["a"]).await;
    });
}

#[test]
fn privileged_mounts_of_an_earlier_driver_are_torn_down() {
    privileged(async |bench| {
        let pod = bench
            .path("kubelet")
            .join("pods/1/volumes/kubernetes.io~csi/pv");
        let target = pod.join("mount");
        fs::create_dir_all(&target).unwrap();
        bench.mount_foreign_at(&target);
        assert_eq!(variant(bench.unpublish_path("old", &target).await), "InUse");
        let record = format!(r#"{{"driverName":"{}","volumeHandle":"old"}}"#, driver());
        fs::write(pod.join("vol_data.json"), record).unwrap();
        assert_eq!(
            variant(bench.unpublish_path("other", &target).await),
            "InUse"
        );
        bench.unpublish_path("old", &target).await.unwrap();
        assert!(!target.exists());
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_device_of_an_earlier_driver_is_detached() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "raw", 1).await;
        let devices = bench
            .path("kubelet")
            .join("plugins/kubernetes.io/csi/volumeDevices");
        let (target, data) = (devices.join("publish/pv/pod"), devices.join("pv/data"));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::create_dir_all(&data).unwrap();
        bench.attach_as_others(&bench.path("pool").join("v.img"), &target);
        let record = format!(r#"{{"driverName":"{}","volumeHandle":"v"}}"#, driver());
        fs::write(data.join("vol_data.json"), record).unwrap();
        assert_eq!(variant(volume.stage().await), "InUse");
        bench.unpublish_path("v", &target).await.unwrap();
        bench.assert_no_loop_devices();
        volume.stage().await.unwrap();
        volume.end(&[]).await;
    });
}
