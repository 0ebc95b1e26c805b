//! Calls in an order that no client should send, and in which some do.

use crate::bench::*;
use wasmount_core::mounter::Staged;

#[test]
fn privileged_an_unstage_before_the_unpublish_is_refused_and_both_work_after() {
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
fn privileged_an_unstage_is_not_held_up_by_a_target_that_is_gone() {
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
