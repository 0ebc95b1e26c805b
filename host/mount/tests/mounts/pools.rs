//! What pools and mounts know of one another.

use crate::bench::*;
use wasmount_core::mounter::MountError;
use wasmount_core::names::DriverName;
use wasmount_core::pool::{PoolCall, PoolReply};

async fn remove(bench: &Bench, path: &str) -> Result<PoolReply, MountError> {
    let call = PoolCall::RemoveDirectory {
        pool: "main".to_owned(),
        path: path.to_owned(),
    };
    bench.mounter.pool(driver(), call).await
}

#[test]
fn privileged_what_a_mounted_volume_uses_is_not_removed_and_goes_after() {
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
fn privileged_a_record_whose_mount_is_gone_does_not_keep_a_volume() {
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
