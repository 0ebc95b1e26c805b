//! Swaps by command: which services they may remove, their order, and their behaviour on a full disk.

use crate::bench::*;
use crate::written;
use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use wasmount_core::error::Error;
use wasmount_core::status::{HeldBy, Phase};
use wasmount_versions::{Refusal, SwapRequest};

pub(crate) fn to(desired: wasmount_versions::Desired) -> SwapRequest {
    SwapRequest {
        desired: Some(desired),
        ..SwapRequest::default()
    }
}

#[tokio::test]
async fn a_swap_says_what_became_of_it() {
    let bench = Bench::serving().await;
    put(&build("misbehave", 2), &bench.plugin());
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!((outcome.before, outcome.now.number), (Some(1), 2));
    assert!(outcome.changed);
    assert_eq!(bench.number(), 2);
    let again = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!((again.changed, again.now.number), (false, 2));
}

#[tokio::test]
async fn a_swap_that_is_refused_says_why_and_changes_nothing() {
    let bench = Bench::serving().await;
    let bad = bench.desired(behaving("trap-at-admission"));
    let refusal = bench.reconciler.swap(to(bad)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Identity(_)), "{refusal}");
    assert_eq!(bench.number(), 1);
    assert_eq!(bench.reconciler.status().held, None);
    bench.calls().await;
}

#[tokio::test]
async fn services_are_not_taken_away_unless_it_is_said() {
    let bench = Bench::serving().await;
    put(&build("directory", 1), &bench.plugin());
    let refusal = bench
        .reconciler
        .swap(SwapRequest::default())
        .await
        .unwrap_err();
    let said = refusal.to_string();
    assert!(matches!(refusal, Refusal::ServicesRemoved { .. }), "{said}");
    for word in [
        "CREATE_DELETE_SNAPSHOT",
        "node-publish",
        "--allow-service-change",
    ] {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(bench.number(), 1);
    let allowed = SwapRequest {
        allow_service_change: true,
        ..SwapRequest::default()
    };
    let outcome = bench.reconciler.swap(allowed).await.unwrap();
    assert_eq!(outcome.now.plugin, "directory.wasmount.io");
    // What was allowed once is the reference from then on.
    bench
        .set_desired(json!({ "settings": { "any": "thing" } }))
        .await;
    assert_eq!(bench.number(), 3);
}

#[tokio::test]
async fn a_swap_without_document_stays_until_the_next_swap() {
    let bench = Bench::serving().await;
    let other = bench.desired(behaving("other"));
    let outcome = bench.reconciler.swap(to(other)).await.unwrap();
    assert_eq!(outcome.now.number, 2);
    let held = bench.reconciler.status().held.unwrap();
    assert_eq!((held.number, held.by), (2, HeldBy::Swap));
    bench.set_desired(behaving("newer")).await;
    assert_eq!(bench.number(), 2);
    let bench = bench.restarted(behaving("newer")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(bench.number(), 2);
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!(outcome.now.number, 3);
    assert_eq!(bench.reconciler.status().held, None);
}

#[tokio::test]
async fn two_concurrent_swaps_are_both_answered() {
    let bench = Bench::serving().await;
    let (one, other) = (
        bench.desired(behaving("one")),
        bench.desired(behaving("other")),
    );
    let (one, other) = tokio::join!(
        bench.reconciler.swap(to(one)),
        bench.reconciler.swap(to(other))
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(
        (one.before, one.now.number, other.before, other.now.number),
        (Some(1), 2, Some(2), 3)
    );
    assert_eq!(bench.number(), 3);
}

#[tokio::test]
async fn a_rollback_does_not_wait_for_a_swap_that_hangs() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    let away = bench.sources.gate.write().await;
    let reconciler = bench.reconciler.clone();
    let swap = tokio::spawn(async move { reconciler.swap(SwapRequest::default()).await });
    let asked = bench.sources.asked.load(Ordering::SeqCst);
    while bench.sources.asked.load(Ordering::SeqCst) == asked {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let outcome = bench.back(None).await.unwrap();
    assert_eq!(outcome.now.number, 1);
    drop(away);
    let refusal = swap.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::Overtaken), "{refusal}");
}

#[tokio::test]
async fn a_swap_that_was_asked_for_before_a_rollback_does_not_undo_it() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    let away = bench.sources.gate.write().await;
    let swap = || {
        let reconciler = bench.reconciler.clone();
        tokio::spawn(async move { reconciler.swap(SwapRequest::default()).await })
    };
    let asked = bench.sources.asked.load(Ordering::SeqCst);
    let swaps = [swap(), swap(), swap()];
    while bench.sources.asked.load(Ordering::SeqCst) == asked {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
    drop(away);
    for swap in swaps {
        let refusal = swap.await.unwrap().unwrap_err();
        assert!(matches!(refusal, Refusal::Overtaken), "{refusal}");
    }
    let status = bench.reconciler.status();
    assert_eq!((bench.number(), status.phase), (1, Phase::RolledBack));
    // A swap that is requested later is done.
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!(outcome.now.number, 3);
}

#[tokio::test]
async fn a_full_disk_refuses_the_swap_and_keeps_the_version() {
    let bench = Bench::serving().await;
    // The file that the history is written to next.
    let in_the_way = written::next(&bench.folder.path().join("versions"));
    fs::create_dir(&in_the_way).unwrap();
    let granted = json!({ "grants": { "pools": { "volumes": { "path": "/srv/volumes" } } } });
    let other = bench.desired(granted);
    let refusal = bench.reconciler.swap(to(other.clone())).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Disk { .. }), "{refusal}");
    assert_eq!(bench.number(), 1);
    bench.calls().await;
    let granted = bench.granted.lock().unwrap().clone();
    let pools: Vec<usize> = granted.iter().map(|grants| grants.pools.len()).collect();
    assert_eq!(pools, [0, 1, 0], "the grants are taken back");
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(
        bench.reconciler.swap(to(other)).await.unwrap().now.number,
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_versions_are_swapped() {
    /// Calls at a time.
    const AT_ONCE: usize = 8;
    let bench = Bench::serving().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut calls = JoinSet::new();
    for worker in 0..AT_ONCE {
        let (driver, stop) = (bench.driver.clone(), stop.clone());
        calls.spawn(async move {
            let id = wasmount_core::names::VolumeId::parse("id", format!("v{worker}")).unwrap();
            let mut ended = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                driver.delete_volume(incoming(), id.clone()).await?;
                ended += 1;
            }
            Ok::<_, Error>(ended)
        });
    }
    for number in 0..50 {
        let granted = if number % 10 == 0 {
            "/srv/one"
        } else {
            "/srv/other"
        };
        let other = bench.desired(json!({
            "settings": { "number": number.to_string() },
            "grants": { "pools": { "volumes": { "path": granted } } },
        }));
        bench.reconciler.swap(to(other)).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = calls.join_next().await {
        assert!(ended.unwrap().unwrap() > 0);
    }
    assert_eq!(bench.number(), 51);
    assert_eq!(bench.reconciler.status().draining, []);
    // Settings alone changed.
    assert_eq!(bench.kept_components().await, 1);
}

#[tokio::test]
async fn a_drained_backend_takes_work_after_undrain() {
    let bench = Bench::serving().await;
    let drained = bench
        .reconciler
        .drain("the node is serviced".to_owned(), Duration::from_secs(5))
        .await
        .unwrap();
    assert_eq!(drained, 0);
    let status = bench.reconciler.status();
    assert_eq!(status.phase, Phase::Draining);
    assert_eq!(status.drained.unwrap().reason, "the node is serviced");
    let refused = bench.driver.create_volume(incoming(), create("x")).await;
    assert!(matches!(refused, Err(Error::NoNewWork { .. })));
    bench.calls().await;
    bench.reconciler.undrain().await.unwrap();
    bench
        .driver
        .create_volume(incoming(), create("x"))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_later_of_drain_and_undrain_is_in_force() {
    let bench = Bench::serving().await;
    let reconciler = &bench.reconciler;
    let drain = |reason: &str| reconciler.drain(reason.to_owned(), Duration::ZERO);
    let create = || bench.driver.create_volume(incoming(), create("x"));
    drain("new disks").await.unwrap();
    let (ended, begun) = tokio::join!(reconciler.undrain(), drain("new cables"));
    ended.and(begun.map(drop)).unwrap();
    assert_eq!(reconciler.status().drained.unwrap().reason, "new cables");
    let refused = create().await.unwrap_err();
    assert!(
        matches!(&refused, Error::NoNewWork { reason } if reason == "new cables"),
        "{refused}"
    );
    reconciler.undrain().await.unwrap();
    let (begun, ended) = tokio::join!(drain("new disks"), reconciler.undrain());
    ended.and(begun.map(drop)).unwrap();
    assert_eq!(reconciler.status().drained, None);
    create().await.unwrap();
}

#[tokio::test]
async fn a_backend_that_is_gone_is_forgotten_and_asks_are_refused() {
    let bench = Bench::serving().await;
    bench.reconciler.forget().await.unwrap();
    assert!(!bench.folder.path().join("versions").exists());
    let refusal = bench
        .reconciler
        .swap(SwapRequest::default())
        .await
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Stopped), "{refusal}");
    bench.calls().await;
}
