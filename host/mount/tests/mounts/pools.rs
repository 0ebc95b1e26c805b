//! Interactions of pools and mounts.

use crate::bench::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::pool::{Extents, PoolCall, PoolReply};
use wasmount_core::snapshot::Extent;

async fn remove(bench: &Bench, path: &str) -> Result<PoolReply, MountError> {
    remove_from(bench, "main", path).await
}

async fn remove_from(bench: &Bench, pool: &str, path: &str) -> Result<PoolReply, MountError> {
    let call = PoolCall::RemoveDirectory {
        pool: pool.to_owned(),
        path: path.to_owned(),
    };
    bench.mounter.pool(driver(), call).await
}

#[test]
fn privileged_a_mounted_volume_is_not_removed() {
    privileged(async |bench| {
        bench.in_use("v").await;
        assert_eq!(variant(remove(&bench, "v").await), "InUse");
        bench.unpublish("v", "v").await.unwrap();
        let bench = bench.restarted();
        assert_eq!(variant(remove(&bench, "v").await), "InUse");
        bench.unstage("v").await.unwrap();
        assert_eq!(remove(&bench, "v").await, Ok(PoolReply::Done));
        assert!(!bench.path("pool/v").exists());
    });
}

#[test]
fn privileged_a_renamed_pool_keeps_its_mounted_volumes() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let bench = bench.with_pool_named("renamed");
        // The second answer may come from what the first one has learnt.
        for _ in 0..2 {
            assert_eq!(variant(remove_from(&bench, "renamed", "v").await), "InUse");
        }
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        let removed = remove_from(&bench, "renamed", "v").await;
        assert_eq!(removed, Ok(PoolReply::Done));
    });
}

#[test]
fn privileged_a_record_without_mount_does_not_block_removal() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        take_off(bench.staging("v"));
        assert_eq!(remove(&bench, "v").await, Ok(PoolReply::Done));
    });
}

#[test]
fn privileged_a_driver_without_a_document_has_no_pools() {
    privileged(async |bench| {
        let other = DriverName::parse("other.test").unwrap();
        let answer = bench.mounter.pool(other, PoolCall::Names).await;
        assert_eq!(variant(answer), "NotGranted");
        let names = bench.mounter.pool(driver(), PoolCall::Names).await;
        assert_eq!(names, Ok(PoolReply::Names(vec!["main".to_owned()])));
    });
}

#[test]
fn privileged_statistics_of_an_image_exclude_its_host() {
    privileged(async |bench| {
        let create = PoolCall::CreateImage {
            pool: "main".to_owned(),
            path: "image".to_owned(),
            size_bytes: 1 << 20,
        };
        bench.mounter.pool(driver(), create).await.unwrap();
        let image = File::options()
            .write(true)
            .open(bench.path("pool/image"))
            .unwrap();
        image.write_all_at(&[7; 64 << 10], 128 << 10).unwrap();
        let ask = async |offset| {
            let call = PoolCall::AllocatedExtents {
                pool: "main".to_owned(),
                path: "image".to_owned(),
                offset,
                limit: 0,
            };
            bench.mounter.pool(driver(), call).await
        };
        let ranges = vec![Extent {
            offset_bytes: 128 << 10,
            size_bytes: 64 << 10,
        }];
        let found = PoolReply::Extents(Extents {
            ranges,
            next_offset: None,
        });
        assert_eq!(ask(0).await, Ok(found));
        assert_eq!(variant(ask((1 << 20) + 1).await), "OutOfRange");
    });
}
