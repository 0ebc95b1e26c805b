//! What the host finds wrong with volumes whose mounts, devices and images were damaged for real; and nothing where nothing is. Storage that
//! does not answer is in `hung`.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use HealthStatus::{DataLoss, Degraded, Inaccessible};
use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmount_core::health::HealthStatus;
use wasmount_core::mounter::{HealthQuery, MountError};
use wasmount_core::plan::{PlanFile, Source};
use wasmount_core::volume::{AccessMode, AccessType};

type Findings = Vec<(HealthStatus, String)>;

async fn ask(
    bench: &Bench,
    volume: &str,
    target: Option<&Path>,
    staging: Option<&Path>,
) -> Result<Findings, MountError> {
    let query = HealthQuery {
        key: key(volume),
        publish_path: target.map(node_path),
        staging_path: staging.map(node_path),
    };
    let findings = bench.mounter.health(query).await?.into_iter();
    let found = findings.map(|it| {
        assert!(
            it.message.contains(volume) && it.message.contains("; "),
            "{it:?}"
        );
        (it.status, it.reason)
    });
    Ok(found.collect())
}

/// Of all places.
async fn found(bench: &Bench, volume: &str) -> Findings {
    ask(bench, volume, None, None).await.unwrap()
}

fn one(status: HealthStatus, reason: &str) -> Findings {
    vec![(status, reason.to_owned())]
}

fn run(program: &str, arguments: &[&str]) {
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.unwrap_or_else(|error| panic!("this test needs `{program}`: {error}"));
    assert!(ended.status.success(), "{program} {arguments:?}: {ended:?}");
}

async fn in_use<'b>(bench: &'b Bench, form: &'static str, mebibytes: u64) -> Volume<'b> {
    let volume = Volume::of_image(bench, form, form, mebibytes).await;
    volume.stage().await.unwrap();
    volume.publish("a").await.unwrap();
    assert_eq!(found(bench, form).await, []);
    volume
}

/// The name of the loop device that lies on an image, as sysfs has it.
fn loop_name(bench: &Bench, image: &str) -> String {
    let number = bench.loop_of(image);
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn privileged_nothing_is_wrong_with_a_healthy_volume_of_any_kind_full_ones_too() {
    privileged(async |bench| {
        let device = NodeDevice::attach(&bench, "disk", 64 << 20);
        let of_device = plan(Source::Device {
            facts: vec![("by-id".to_owned(), device.by_id())],
            wait_ms: 1000,
        });
        bench.volume("tree");
        let tmpfs = plan(Source::Tmpfs {
            size_bytes: Some(64 << 10),
        });
        let files = plan(Source::Files {
            files: vec![PlanFile {
                path: "token".to_owned(),
                mode: 0o444,
                content: b"x".to_vec(),
            }],
        });
        let volumes = [
            Volume::new(&bench, "tree", tree("tree"), mounted_as("ext4")),
            Volume::new(&bench, "tmpfs", tmpfs, mounted_as("ext4")),
            Volume::new(&bench, "files", files, mounted_as("ext4")),
            Volume::of_image(&bench, "ext4", "ext4", 32).await,
            Volume::of_image(&bench, "xfs", "xfs", 300).await,
            Volume::of_image(&bench, "btrfs", "btrfs", 128).await,
            Volume::of_image(&bench, "raw", "raw", 1).await,
            Volume::new(&bench, "disk", of_device.clone(), mounted_as("ext4")),
            Volume::new(&bench, "raw-disk", of_device, AccessType::Block),
        ];
        for volume in volumes {
            let name = volume.name;
            if name == "files" {
                volume.publish_plan("a", false).await.unwrap();
                assert_eq!(found(&bench, name).await, [], "{name}");
                volume.end(&["a"]).await;
                continue;
            }
            volume.stage().await.unwrap();
            assert_eq!(found(&bench, name).await, [], "{name}");
            volume.publish("a").await.unwrap();
            if !matches!(name, "raw" | "raw-disk" | "tree") {
                // Until nothing more goes in.
                let mut file = File::create(bench.target("a").join("data")).unwrap();
                let block = vec![1; 64 << 10];
                while std::io::Write::write_all(&mut file, &block).is_ok() {}
            }
            volume
                .publish_as("ro", AccessMode::SingleNodeWriter, true)
                .await
                .unwrap();
            assert_eq!(found(&bench, name).await, [], "{name}");
            let (target, staging) = (bench.target("ro"), bench.staging(name));
            for (target, staging) in [
                (Some(&*target), None),
                (None, Some(&*staging)),
                (Some(&*target), Some(&*staging)),
            ] {
                let found = ask(&bench, name, target, staging).await;
                assert_eq!(found, Ok(Vec::new()), "{name}");
            }
            volume.end(&["a", "ro"]).await;
        }
    });
}

#[test]
fn privileged_what_is_not_recorded_is_not_found() {
    privileged(async |bench| {
        assert_eq!(variant(ask(&bench, "v", None, None).await), "NotFound");
        bench.in_use("v").await;
        let (target, staging) = (bench.target("v"), bench.staging("v"));
        let (none, outside) = (bench.path("kubelet/none"), Path::new("/etc"));
        for (target, staging) in [
            (Some(&*none), None),
            (Some(outside), None),
            (None, Some(&*none)),
            (Some(&*none), Some(&*staging)),
            // A stage is no publish.
            (None, Some(Path::new("/"))),
        ] {
            let found = ask(&bench, "v", target, staging).await;
            assert_eq!(variant(found), "NotFound", "{target:?} {staging:?}");
        }
        assert_eq!(
            ask(&bench, "v", Some(&target), Some(&none)).await,
            Ok(vec![])
        );
        bench.unpublish("v", "v").await.unwrap();
        assert_eq!(
            variant(ask(&bench, "v", Some(&target), None).await),
            "NotFound"
        );
        assert_eq!(ask(&bench, "v", None, Some(&staging)).await, Ok(vec![]));
        bench.unstage("v").await.unwrap();
        assert_eq!(variant(ask(&bench, "v", None, None).await), "NotFound");
    });
}

#[test]
fn privileged_a_mount_that_somebody_took_off_is_told_and_mends_with_the_next_publish() {
    privileged(async |bench| {
        bench.in_use("v").await;
        take_off(bench.target("v"));
        let lost = one(Inaccessible, "MountLost");
        assert_eq!(found(&bench, "v").await, lost);
        let staging = bench.staging("v");
        assert_eq!(ask(&bench, "v", None, Some(&staging)).await, Ok(vec![]));
        bench.publish("v", "v").await.unwrap();
        assert_eq!(found(&bench, "v").await, []);
        // Something else over it hides it.
        bench.mount_something_at(&bench.target("v"));
        assert_eq!(found(&bench, "v").await, lost);
        take_off(bench.target("v"));
        take_off(&staging);
        assert_eq!(ask(&bench, "v", None, Some(&staging)).await, Ok(lost));
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_file_system_that_was_shut_down_is_inaccessible_and_is_torn_down() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 32), ("xfs", 300)] {
            let volume = in_use(&bench, form, mebibytes).await;
            // `EXT4_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN`.
            let staging = bench.staging(form);
            run(
                "xfs_io",
                &["-x", "-c", "shutdown", staging.to_str().unwrap()],
            );
            assert_eq!(found(&bench, form).await, one(Inaccessible, "IoError"));
            volume.end(&["a"]).await;
        }
    });
}

#[test]
fn privileged_a_file_system_that_an_error_made_read_only_is_degraded_until_it_is_staged_anew() {
    privileged(async |bench| {
        let volume = in_use(&bench, "ext4", 32).await;
        let device = loop_name(&bench, "ext4.img");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(trigger, "as a test").unwrap();
        assert!(File::create(bench.target("a").join("data")).is_err());
        let both = [
            (Degraded, "FileSystemErrors".to_owned()),
            (Degraded, "ReadOnlyAfterError".to_owned()),
        ];
        assert_eq!(found(&bench, "ext4").await, both);
        volume.end(&["a"]).await;
        // The stage checks the file system.
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        assert_eq!(found(&bench, "ext4").await, []);
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_what_somebody_made_read_only_is_degraded_for_those_who_may_write() {
    privileged(async |bench| {
        let volume = in_use(&bench, "ext4", 32).await;
        volume.publish_as("ro", WRITER, true).await.unwrap();
        let target = bench.target("a");
        let bind = MountFlags::BIND | MountFlags::RDONLY;
        mount_remount(&target, bind, "").unwrap();
        let staging = bench.staging("ext4");
        let made = one(Degraded, "MountMadeReadOnly");
        assert_eq!(ask(&bench, "ext4", Some(&target), None).await, Ok(made));
        assert_eq!(ask(&bench, "ext4", None, Some(&staging)).await, Ok(vec![]));
        mount_remount(&target, MountFlags::BIND, "").unwrap();
        assert_eq!(found(&bench, "ext4").await, []);
        mount_remount(&staging, MountFlags::RDONLY, "").unwrap();
        for (target, expected) in [
            (target, one(Degraded, "ReadOnlyAfterError")),
            (bench.target("ro"), vec![]),
        ] {
            let found = ask(&bench, "ext4", Some(&target), None).await;
            assert_eq!(found, Ok(expected));
        }
        volume.end(&["a", "ro"]).await;
    });
}

#[test]
fn privileged_an_image_that_is_gone_is_lost_data_and_no_further_pod_begins_with_it() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 32), ("raw", 16)] {
            let image = bench.path("pool").join(format!("{form}.img"));
            let kept = bench.path("pool/kept");
            let gone = one(DataLoss, "ImageGone");
            let volume = in_use(&bench, form, mebibytes).await;
            fs::rename(&image, &kept).unwrap();
            assert_eq!(found(&bench, form).await, gone, "moved");
            File::create(&image).unwrap().set_len(1 << 20).unwrap();
            assert_eq!(found(&bench, form).await, gone, "another in its place");
            fs::rename(&kept, &image).unwrap();
            assert_eq!(found(&bench, form).await, [], "back again");

            fs::remove_file(&image).unwrap();
            assert_eq!(found(&bench, form).await, gone, "removed");
            let target = bench.target("a");
            assert_eq!(ask(&bench, form, Some(&target), None).await, Ok(gone));
            let refused = volume.publish("b").await.unwrap_err();
            assert!(
                matches!(refused, MountError::Unusable { .. }) && !bench.target("b").exists(),
                "{refused}"
            );
            // One that is there stays.
            volume.publish("a").await.unwrap();
            volume.unpublish("a").await.unwrap();
            volume.unstage().await.unwrap();
            bench.assert_clean();
        }
    });
}

#[test]
fn privileged_an_image_that_was_cut_has_lost_data_and_a_longer_one_has_not() {
    privileged(async |bench| {
        let volume = in_use(&bench, "raw", 16).await;
        let image = File::options()
            .write(true)
            .open(bench.path("pool/raw.img"))
            .unwrap();
        image.set_len(32 << 20).unwrap();
        assert_eq!(found(&bench, "raw").await, []);
        image.set_len(1 << 20).unwrap();
        assert_eq!(found(&bench, "raw").await, one(DataLoss, "ImageTruncated"));
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_a_pool_that_is_not_there_any_more_is_not_taken_for_lost_images() {
    privileged(async |bench| {
        let volume = in_use(&bench, "raw", 16).await;
        let pool = bench.path("pool");
        bench.mount_something_at(&pool);
        assert_eq!(found(&bench, "raw").await, []);
        fs::write(pool.join("raw.img"), "another").unwrap();
        assert_eq!(found(&bench, "raw").await, []);
        unmount(&pool, UnmountFlags::DETACH).unwrap();
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_a_device_that_was_detached_is_gone() {
    privileged(async |bench| {
        let volume = in_use(&bench, "raw", 16).await;
        let target = bench.target("a");
        unmount(&target, UnmountFlags::DETACH).unwrap();
        bench.detach_loop_devices();
        let staging = bench.staging("raw");
        let gone = one(Inaccessible, "DeviceGone");
        assert_eq!(ask(&bench, "raw", None, Some(&staging)).await, Ok(gone));
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_a_volume_that_comes_and_goes_meanwhile_is_never_taken_for_sick() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 32).await;
        let mounter = bench.mounter.clone();
        let is_over = Arc::new(AtomicBool::new(false));
        let asking = tokio::spawn({
            let is_over = is_over.clone();
            async move {
                let mut answers = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let query = HealthQuery {
                        key: key("v"),
                        publish_path: None,
                        staging_path: None,
                    };
                    match mounter.health(query).await {
                        Ok(findings) => {
                            assert_eq!(findings, []);
                            answers += 1;
                        }
                        Err(error) => assert!(matches!(error, MountError::NotFound { .. })),
                    }
                    tokio::task::yield_now().await;
                }
                answers
            }
        });
        for _ in 0..10 {
            volume.stage().await.unwrap();
            for target in ["a", "b", "c"] {
                volume.publish(target).await.unwrap();
            }
            volume.end(&["a", "b", "c"]).await;
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(asking.await.unwrap() > 0);
    });
}
