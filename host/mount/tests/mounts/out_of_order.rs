//! Calls in an order that no client should use, and that some clients use.

use crate::bench::*;
use wasmount_core::mounter::Staged;

#[test]
fn privileged_unstage_before_unpublish_is_refused() {
    privileged(async |bench| {
        bench.in_use("v").await;
        bench.publish("v", "second").await.unwrap();
        assert_eq!(variant(bench.unstage("v").await), "InUse");
        assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
        bench.unpublish("v", "v").await.unwrap();
        assert_eq!(variant(bench.unstage("v").await), "InUse");
        bench.unpublish("v", "second").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_missing_target_does_not_block_unstage() {
    privileged(async |bench| {
        bench.in_use("v").await;
        take_off(bench.target("v"));
        bench.unstage("v").await.unwrap();
        bench.unpublish("v", "v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_stage_after_an_unstage_starts_anew() {
    privileged(async |bench| {
        bench.in_use("v").await;
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        assert_eq!(variant(bench.publish("v", "v").await), "NotStaged");
        bench
            .stage_as("v", wasmount_core::volume::AccessMode::MultiNodeMultiWriter)
            .await
            .unwrap();
        bench.publish("v", "v").await.unwrap();
    });
}
