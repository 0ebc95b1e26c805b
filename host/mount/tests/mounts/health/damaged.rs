//! File systems, images and devices that are really damaged below volumes in use, and the findings of the host.

use super::{ask, found, in_use, of, one};
use crate::bench::*;
use crate::volume::Volume;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::process::Command;
use wasmount_core::health::HealthStatus::{DataLoss, Degraded, Inaccessible};
use wasmount_core::mounter::MountError;
use wasmount_core::volume::AccessType;

fn run(program: &str, arguments: &[&str]) {
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.unwrap_or_else(|error| panic!("this test needs `{program}`: {error}"));
    assert!(ended.status.success(), "{program} {arguments:?}: {ended:?}");
}

/// The name of the loop device that lies on an image, as sysfs has it.
fn loop_name(bench: &Bench, image: &str) -> String {
    let number = bench.loop_of(image);
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn privileged_a_shut_down_file_system_is_inaccessible() {
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
fn privileged_an_ext4_remounted_read_only_is_degraded() {
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
fn privileged_a_lost_image_is_data_loss_and_not_published() {
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
            // An existing publish remains.
            volume.publish("a").await.unwrap();
            volume.unpublish("a").await.unwrap();
            volume.unstage().await.unwrap();
            bench.assert_clean();
        }
    });
}

#[test]
fn privileged_a_lost_directory_is_data_loss_and_not_published() {
    privileged(async |bench| {
        bench.in_use("v").await;
        assert_eq!(found(&bench, "v").await, []);
        fs::remove_dir_all(bench.path("pool/v")).unwrap();
        assert_eq!(found(&bench, "v").await, one(DataLoss, "DirectoryGone"));
        let refused = bench.publish("v", "other").await.unwrap_err();
        assert!(
            matches!(refused, MountError::Unusable { .. }) && !bench.target("other").exists(),
            "{refused}"
        );
        // An existing publish remains.
        bench.publish("v", "v").await.unwrap();
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_truncated_image_is_data_loss() {
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
fn privileged_a_missing_pool_is_not_data_loss() {
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
        let gone = one(Inaccessible, "DeviceGone");
        let volume = in_use(&bench, "raw", 16).await;
        let target = bench.target("a");
        unmount(&target, UnmountFlags::DETACH).unwrap();
        bench.detach_loop_devices();
        let staging = bench.staging("raw");
        let found = ask(&bench, "raw", None, Some(&staging)).await;
        assert_eq!(found, Ok(gone.clone()));
        volume.end(&["a"]).await;

        let disk = NodeDevice::attach(&bench, "disk", 16 << 20);
        let volume = Volume::new(&bench, "disk", of(&disk), AccessType::Block);
        volume.stage().await.unwrap();
        let staging = bench.staging("disk");
        let found = ask(&bench, "disk", None, Some(&staging)).await;
        assert_eq!(found, Ok(Vec::new()));
        drop(disk);
        let found = ask(&bench, "disk", None, Some(&staging)).await;
        assert_eq!(found, Ok(gone));
        volume.end(&[]).await;
    });
}
