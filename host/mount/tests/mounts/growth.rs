//! Volumes that are expanded while they are in use, and those that cannot be.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use rustix::thread::{CapabilitySet, capabilities};
use std::fs;
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::AccessType;

const MEBIBYTE: u64 = 1 << 20;

#[test]
fn privileged_a_volume_grows_on_its_node_alone() {
    privileged(async |bench| {
        for (form, mebibytes) in [("xfs", 300), ("btrfs", 128), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            volume.stage().await.unwrap();
            for (target, readonly) in [("rw", false), ("ro", true)] {
                volume.publish_as(target, WRITER, readonly).await.unwrap();
            }
            let before = volume.stats("ro").await.unwrap().bytes.total;
            // The kernel resizes no btrfs below 256 MiB.
            let wanted = (mebibytes + 256) * MEBIBYTE;
            for _ in 0..2 {
                assert_eq!(
                    volume.expand(Some(wanted), None).await,
                    Ok(wanted),
                    "{form}"
                );
            }
            for target in ["rw", "ro"] {
                let after = volume.stats(target).await.unwrap().bytes.total;
                assert!(
                    after >= before + 240 * MEBIBYTE,
                    "{form}: {before}, then {after}"
                );
            }
            let too_small = volume.expand(None, Some(MEBIBYTE)).await;
            assert_eq!(variant(too_small), "OutOfRange", "{form}");
            volume.end(&["rw", "ro"]).await;
        }
    });
}

/// Whether the kernel lets this process expand a mounted ext4 (ext4(5), `EXT4_IOC_RESIZE_FS`).
fn may_grow_ext4_online() -> bool {
    let own = capabilities(None).unwrap();
    own.effective.contains(CapabilitySet::SYS_RESOURCE)
}

/// With CAP_SYS_RESOURCE it is expanded at once.
#[test]
fn privileged_an_ext4_grows_at_the_next_stage() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 32).await;
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        fs::write(bench.target("a").join("data"), "kept").unwrap();
        let before = volume.stats("a").await.unwrap().bytes.total;
        let wanted = 64 * MEBIBYTE;
        for _ in 0..2 {
            let grown = volume.expand(Some(wanted), None).await;
            if may_grow_ext4_online() {
                assert_eq!(grown, Ok(wanted));
                let now = volume.stats("a").await.unwrap().bytes.total;
                assert!(now >= before + 28 * MEBIBYTE, "{before}, then {now}");
            } else {
                let error = grown.unwrap_err();
                assert!(error.to_string().contains("staged next"), "{error}");
                assert_eq!(variant::<()>(Err(error)), "Unusable");
                assert_eq!(volume.stats("a").await.unwrap().bytes.total, before);
            }
        }
        volume.unpublish("a").await.unwrap();
        volume.unstage().await.unwrap();
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        let after = volume.stats("a").await.unwrap().bytes.total;
        assert!(after >= before + 28 * MEBIBYTE, "{before}, then {after}");
        assert_eq!(
            fs::read_to_string(bench.target("a").join("data")).unwrap(),
            "kept"
        );
        assert_eq!(volume.expand(Some(wanted), None).await, Ok(wanted));
        volume.end(&["a"]).await;
    });
}

#[test]
fn privileged_a_tree_has_nothing_to_grow() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let volume = Volume::new(&bench, "v", tree("v"), mounted_as("ext4"));
        assert_eq!(volume.expand(Some(MEBIBYTE), None).await, Ok(0));
        let unknown = Volume::new(&bench, "w", tree("w"), mounted_as("ext4"));
        assert_eq!(variant(unknown.expand(None, None).await), "NotFound");
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
    });
}

#[test]
fn privileged_an_odd_size_grows_to_the_next_device_size() {
    privileged(async |bench| {
        const WANTED: u64 = 500_000_000;
        const GROWN: u64 = 500_002_816;
        for (form, mebibytes) in [("xfs", 300), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            let narrow = volume.expand(Some(WANTED), Some(WANTED)).await;
            assert_eq!(variant(narrow), "OutOfRange", "{form}");
            for _ in 0..2 {
                let grown = volume.expand(Some(WANTED), Some(GROWN)).await;
                assert_eq!(grown, Ok(GROWN), "{form}");
            }
            volume.end(&["a"]).await;
        }
    });
}

/// A plugin may have made such an image: the remainder of its last sector is not visible on a device.
#[test]
fn privileged_an_odd_image_size_is_used_as_far_as_possible() {
    privileged(async |bench| {
        const BYTES: u64 = 20_000_000;
        let plan = bench.image("v", BYTES).await;
        let volume = Volume::new(&bench, "v", plan, AccessType::Block);
        volume.stage().await.unwrap();
        volume.publish("a").await.unwrap();
        let on_device = BYTES - BYTES % 512;
        assert_eq!(volume.expand(Some(BYTES), Some(BYTES)).await, Ok(on_device));
        volume.end(&["a"]).await;
    });
}

/// A volume that its controller expands: only the controller changes its size.
#[test]
fn privileged_an_image_that_its_controller_grows_is_unchanged() {
    privileged(async |bench| {
        for (form, mebibytes) in [("xfs", 300), ("raw", 16)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            let image = bench.path("pool").join(format!("{form}.img"));
            let shown = volume.stats("a").await.unwrap().bytes.total;
            let (before, wanted) = (mebibytes * MEBIBYTE, (mebibytes + 64) * MEBIBYTE);
            let refused = volume.expand_to_image(wanted).await;
            assert_eq!(variant(refused), "Unusable", "{form}");
            assert_eq!(fs::metadata(&image).unwrap().len(), before, "{form}");
            assert_eq!(volume.expand_to_image(before).await, Ok(before), "{form}");
            let grow = PoolCall::ResizeImage {
                pool: "main".to_owned(),
                path: format!("{form}.img"),
                size_bytes: wanted,
            };
            bench.mounter.pool(driver(), grow).await.unwrap();
            assert_eq!(volume.expand_to_image(wanted).await, Ok(wanted), "{form}");
            let now = volume.stats("a").await.unwrap().bytes.total;
            assert!(now > shown + 60 * MEBIBYTE, "{form}: {shown}, then {now}");
            volume.end(&["a"]).await;
        }
    });
}
