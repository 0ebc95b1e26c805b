//! Rollbacks by command: from disk alone, to kept versions, and no further without a command.

use crate::bench::*;
use serde_json::json;
use std::path::Path;
use wasmount_core::status::{HeldBy, Phase, RefusalKind};
use wasmount_versions::{Refusal, RollbackRequest, SwapRequest, VersionEvent};

#[tokio::test]
async fn the_version_before_comes_back_while_its_source_is_away() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    bench.replace(&build("misbehave", 2));
    bench.until_serves(3).await;
    *bench.sources.away.lock().unwrap() = true;
    let mut events = bench.reconciler.events();
    let outcome = bench.back(None).await.unwrap();
    assert_eq!((outcome.before, outcome.now.number), (Some(3), 2));
    assert!(bench.is_rolled_back(3));
    let status = bench.reconciler.status();
    assert_eq!(status.phase, Phase::RolledBack);
    assert_eq!(status.held.unwrap().by, HeldBy::Rollback);
    let event = events.recv().await.unwrap();
    assert!(
        matches!(
            &*event,
            VersionEvent::RolledBack {
                from: 3,
                by_itself: false,
                ..
            }
        ),
        "{event:?}"
    );
    let outcome = bench.back(None).await.unwrap();
    assert_eq!(outcome.now.number, 1);
    let outcome = bench.back(Some(3)).await.unwrap();
    assert_eq!(outcome.now.number, 3);
    bench.calls().await;
}

#[tokio::test]
async fn settings_and_grants_come_back_with_the_code() {
    let bench = Bench::serving().await;
    let pool = |path: &str| json!({ "grants": { "pools": { "volumes": { "path": path } } } });
    bench.set_desired(pool("/srv/one")).await;
    bench.set_desired(pool("/srv/two")).await;
    bench.back(None).await.unwrap();
    let granted = bench.granted.lock().unwrap().clone();
    let paths: Vec<_> = granted
        .iter()
        .map(|grants| {
            grants
                .pools
                .get("volumes")
                .and_then(|it| it.directory().map(Path::to_owned))
        })
        .collect();
    let path = |path: &str| Some(std::path::PathBuf::from(path));
    assert_eq!(
        paths,
        [None, path("/srv/one"), path("/srv/two"), path("/srv/one")]
    );
}

#[tokio::test]
async fn a_backend_stays_where_it_went_back_to_until_a_swap() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    bench.back(None).await.unwrap();
    bench.set_desired(behaving("newer")).await;
    assert_eq!(bench.number(), 1);
    let bench = bench.restarted(behaving("newer")).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), status.phase), (1, Phase::RolledBack));
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!(outcome.now.number, 3);
    assert_eq!(bench.reconciler.status().phase, Phase::Serving);
}

#[tokio::test]
async fn an_object_of_another_version_lifts_a_hold() {
    let bench = Bench::serving().await;
    bench.want_object(behaving("other")).await;
    bench.back(None).await.unwrap();
    // Another policy is not another version.
    let mut policy = behaving("other");
    policy["versions"] = json!({ "keep": 3 });
    bench.want_object(policy).await;
    assert_eq!(bench.number(), 1);
    // A rejected document ends no hold.
    let status = bench.want_object(behaving("bad-settings")).await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Settings);
    assert_eq!((bench.number(), status.phase), (1, Phase::RolledBack));
    let status = bench.want_object(behaving("newer")).await;
    assert_eq!((bench.number(), status.phase), (3, Phase::Serving));
    assert_eq!(status.held, None);
}

#[tokio::test]
async fn an_object_of_the_rollback_target_lifts_the_hold() {
    let bench = Bench::serving().await;
    bench.want_object(behaving("other")).await;
    bench.back(None).await.unwrap();
    let status = bench.want_object(json!({})).await;
    assert_eq!((bench.number(), status.phase), (1, Phase::Serving));
    assert_eq!(status.held, None);
}

#[tokio::test]
async fn an_object_changed_while_stopped_lifts_the_hold() {
    let bench = Bench::serving().await;
    bench.want_object(behaving("other")).await;
    bench.back(None).await.unwrap();
    let bench = bench.restarted_with_object(behaving("other")).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), status.phase), (1, Phase::RolledBack));
    let bench = bench.restarted_with_object(behaving("newer")).await;
    bench.until_serves(3).await;
}

#[tokio::test]
async fn an_object_lifts_what_a_swap_by_hand_has_pinned() {
    let bench = Bench::serving().await;
    bench.want_object(json!({})).await;
    let pinned = SwapRequest {
        desired: Some(bench.desired(behaving("pinned"))),
        ..SwapRequest::default()
    };
    bench.reconciler.swap(pinned).await.unwrap();
    assert_eq!(bench.want_object(json!({})).await.held.unwrap().number, 2);
    let status = bench.want_object(behaving("newer")).await;
    assert_eq!((bench.number(), status.held), (3, None));
}

#[tokio::test]
async fn one_of_two_concurrent_rollbacks_wins() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("second")).await;
    bench.set_desired(behaving("third")).await;
    let leave = || {
        bench.reconciler.rollback(RollbackRequest {
            to: None,
            from: Some(3),
        })
    };
    assert_eq!(leave().await.unwrap().now.number, 2);
    let refusal = leave().await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Overtaken);
    assert_eq!(
        refusal.to_string(),
        "version 2 serves, not version 3: it was changed meanwhile; check `wasmount history` and repeat the command"
    );
    assert_eq!(bench.number(), 2);
}

#[tokio::test]
async fn there_is_no_way_back_to_what_is_not_there() {
    let bench = Bench::serving().await;
    let refusal = bench.back(None).await.unwrap_err();
    assert!(matches!(refusal, Refusal::NothingToGoBackTo), "{refusal}");
    let refusal = bench.back(Some(7)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::NotKept { .. }), "{refusal}");
    let refusal = bench.back(Some(1)).await.unwrap_err();
    assert!(
        matches!(refusal, Refusal::Serves { number: 1 }),
        "{refusal}"
    );
    assert_eq!(bench.reconciler.status().held, None);
}

#[tokio::test]
async fn as_many_versions_are_kept_as_the_document_says() {
    let bench = Bench::serving().await;
    let keeping =
        |setting: &str| json!({ "settings": { "setting": setting }, "versions": { "keep": 2 } });
    for mark in [2, 3] {
        put(&build("misbehave", mark), &bench.plugin());
        bench.set_desired(keeping(&mark.to_string())).await;
    }
    let kept: Vec<(u64, bool)> = bench
        .reconciler
        .history()
        .iter()
        .map(|record| (record.number, record.is_kept))
        .collect();
    assert_eq!(kept, [(3, true), (2, true), (1, false)]);
    assert_eq!(bench.kept_components().await, 2);
    let refusal = bench.back(Some(1)).await.unwrap_err().to_string();
    assert_eq!(refusal, "version 1 is not kept; versions that are kept: 2");
    assert_eq!(bench.back(None).await.unwrap().now.number, 2);
}

#[tokio::test]
async fn a_rollback_keeps_as_many_versions_as_configured() {
    let keeping = |setting: u32, keep: u32| json!({ "settings": { "setting": setting.to_string() }, "versions": { "keep": keep } });
    let bench = Bench::starting("misbehave", keeping(1, 2)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    for setting in 2..=5 {
        bench.set_desired(keeping(setting, 10)).await;
    }
    for to in [1, 5, 3] {
        assert_eq!(bench.back(Some(to)).await.unwrap().now.number, to);
    }
    let kept = |bench: &Bench| {
        let history = bench.reconciler.history();
        history.iter().filter(|it| it.is_kept).count()
    };
    assert_eq!(kept(&bench), 5);
    // Also when it serves again, and the document then keeps fewer versions.
    let bench = bench.restarted(keeping(5, 10)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(kept(&bench), 5);
    let bench = bench.restarted(keeping(5, 2)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), kept(&bench)), (3, 2));
}
