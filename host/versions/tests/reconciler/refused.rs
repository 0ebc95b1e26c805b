//! Rejected candidates, as they are remembered.

use crate::bench::*;
use crate::engine::engine;
use crate::swap::to;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::status::RefusalKind;
use wasmount_versions::SwapRequest;

/// More than the plugin of an abandoned attempt can outlive.
const LATER_ATTEMPTS: usize = 20;

#[tokio::test]
async fn a_rejection_is_recorded_counted_and_survives_restart() {
    let bench = Bench::serving().await;
    let digest = bench.record(1).digest;
    bench.set_desired(behaving("bad-settings")).await;
    let refusals = bench.reconciler.refusals();
    assert_eq!(refusals.len(), 1, "{refusals:#?}");
    assert_eq!(refusals[0].digest.as_deref(), Some(digest.as_str()));
    assert_eq!(refusals[0].origin, bench.plugin().display().to_string());
    assert_eq!(refusals[0].kind, RefusalKind::Settings);
    assert!(
        refusals[0].reason.contains("`endpoint` is missing"),
        "{}",
        refusals[0].reason
    );
    assert_eq!(refusals[0].times, 1);
    let again = bench.reconciler.swap(SwapRequest::default()).await;
    assert!(again.is_err());
    assert_eq!(bench.reconciler.refusals()[0].times, 2);

    let bench = bench.restarted(json!({})).await;
    bench.until("it serves", |it| it.settled >= 1).await;
    assert_eq!(bench.reconciler.refusals()[0].times, 2);
    bench.replace(b"no component");
    bench
        .until("it is refused", |it| it.refused.is_some())
        .await;
    let refusals = bench.reconciler.refusals();
    let kinds: Vec<_> = refusals.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["not_a_component", "settings"]);
    // None of them became a version.
    assert_eq!(bench.reconciler.history().len(), 1);
}

#[tokio::test]
async fn a_rejection_that_cannot_be_recorded_is_reported() {
    let bench = Bench::serving().await;
    // Nothing can be renamed to it.
    fs::create_dir(bench.folder.path().join("versions/refusals.json")).unwrap();
    let status = bench.set_desired(behaving("bad-settings")).await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Settings);
    assert_eq!(bench.reconciler.refusals().len(), 1);
    bench.calls().await;
    bench.set_desired(behaving("other")).await;
    assert_eq!(bench.number(), 2);
    let bench = bench.restarted(behaving("other")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(bench.reconciler.refusals(), []);
}

#[tokio::test]
async fn a_way_back_that_is_closed_is_no_candidate() {
    let bench = Bench::serving().await;
    bench.back(None).await.unwrap_err();
    bench.back(Some(7)).await.unwrap_err();
    assert_eq!(bench.reconciler.refusals(), []);
}

fn digest(wasm: &[u8]) -> String {
    let digits = Sha256::digest(wasm);
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

async fn is_compiled(wasm: &[u8]) -> bool {
    engine().load_compiled(&digest(wasm)).await.is_some()
}

#[tokio::test]
async fn compiled_code_of_a_refused_component_is_removed() {
    let bench = Bench::serving().await;
    let refused = build("misbehave", 8);
    put(&refused, &bench.plugin());
    let status = bench.set_desired(behaving("bad-settings")).await;
    assert_eq!(status.refused.unwrap().digest, Some(digest(&refused)));
    // A command waits for the work after an answer.
    bench.reconciler.undrain().await.unwrap();
    assert!(!is_compiled(&refused).await);
    // With a corrected document the same component serves.
    bench.set_desired(behaving("other")).await;
    assert_eq!(bench.record(2).digest, digest(&refused));
}

#[tokio::test]
async fn compiled_code_of_an_abandoned_attempt_is_removed() {
    let bench = Bench::serving().await;
    for (mark, abandon) in [(9, false), (10, true)] {
        let left = build("misbehave", mark);
        put(&left, &bench.plugin());
        bench
            .reconciler
            .set_desired(bench.desired(behaving("sleep-in-check")));
        while !is_compiled(&left).await {
            sleep(Duration::from_millis(5)).await;
        }
        if abandon {
            bench.reconciler.set_paused(true).await.unwrap();
        } else {
            put(&build("misbehave", 1), &bench.plugin());
            bench.set_desired(json!({})).await;
        }
        bench.reconciler.undrain().await.unwrap();
        // Code that the abandoned attempt still used then is removed after a later one.
        put(&build("misbehave", 1), &bench.plugin());
        let mut later = 0..LATER_ATTEMPTS;
        while is_compiled(&left).await {
            assert!(later.next().is_some(), "{mark}");
            let rejected = to(bench.desired(behaving("bad-settings")));
            bench.reconciler.swap(rejected).await.unwrap_err();
            bench.reconciler.undrain().await.unwrap();
        }
    }
    assert_eq!(bench.number(), 1);
}
