//! Starts of a host when the version in its history cannot serve: the current document is tried.

use crate::bench::*;
use serde_json::{Value, json};
use std::fs;
use wasmount_core::status::{Phase, RefusalKind};
use wasmount_versions::VersionEvent;

fn secret_in(file: &str) -> Value {
    json!({ "secrets": { "password": { "file": file } } })
}

fn write_secret(bench: &Bench, file: &str) {
    fs::write(bench.folder.path().join(file), "x").unwrap();
}

fn move_secret(bench: &Bench, from: &str, to: &str) {
    let folder = bench.folder.path();
    fs::rename(folder.join(from), folder.join(to)).unwrap();
}

/// Serves version 2, with its secret in the file `old`.
async fn with_secret() -> Bench {
    let bench = Bench::serving().await;
    write_secret(&bench, "old");
    bench.set_desired(secret_in("old")).await;
    assert_eq!(bench.number(), 2);
    bench
}

#[tokio::test]
async fn a_moved_secret_is_found_where_the_document_says() {
    let bench = with_secret().await;
    move_secret(&bench, "old", "new");
    let bench = bench.restarted(secret_in("new")).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), status.refused), (3, None));
    bench.calls().await;
}

#[tokio::test]
async fn two_versions_that_cannot_serve_are_reported_once() {
    let bench = with_secret().await;
    move_secret(&bench, "old", "away");
    let bench = bench.restarted(secret_in("new")).await;
    let mut events = bench.reconciler.events();
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(status.phase, Phase::Waiting);
    let refused = status.refused.unwrap();
    assert!(
        refused.reason.contains("/new: it is missing"),
        "{refused:?}"
    );
    let times = |bench: &Bench| bench.reconciler.refusals()[0].times;
    while times(&bench) < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        let VersionEvent::Refused(refused) = &*event else {
            panic!("{event:?}");
        };
        told.push(refused.reason.rsplit('/').next().unwrap().to_owned());
    }
    assert_eq!(told, ["old: it is missing", "new: it is missing"]);
    // The version that served is still tried.
    move_secret(&bench, "away", "old");
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(bench.number(), 2);
}

#[tokio::test]
async fn a_lost_component_is_fetched_under_its_number() {
    let bench = Bench::serving().await;
    put(&build("misbehave", 77), &bench.plugin());
    bench.set_desired(behaving("other")).await;
    let bench = bench.restarted_without_code(behaving("other")).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((status.phase, status.refused), (Phase::Serving, None));
    assert_eq!((bench.number(), bench.reconciler.history().len()), (2, 2));
    assert_eq!(bench.reconciler.refusals()[0].kind, RefusalKind::Disk);
    assert_eq!(bench.kept_components().await, 1);
    bench.calls().await;
}

#[tokio::test]
async fn a_hold_waits_for_its_version_and_ignores_the_document() {
    let bench = with_secret().await;
    bench.set_desired(behaving("third")).await;
    bench.back(None).await.unwrap();
    move_secret(&bench, "old", "away");
    let bench = bench.restarted(behaving("third")).await;
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(status.phase, Phase::Waiting);
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Secret);
    move_secret(&bench, "away", "old");
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), status.phase), (2, Phase::RolledBack));
}

#[tokio::test]
async fn a_failed_version_does_not_replace_the_rollback_target() {
    let bench = Bench::serving().await;
    write_secret(&bench, "old");
    let of_trial = |setting: &str, file: &str| {
        let mut spec = trial(setting, 2, "60s");
        spec["secrets"] = secret_in(file)["secrets"].clone();
        spec
    };
    write_secret(&bench, "bad");
    bench.set_desired(of_trial("good", "old")).await;
    bench.set_desired(of_trial("bad", "bad")).await;
    for _ in 0..2 {
        bench.traps().await;
    }
    bench
        .until("it is rolled back", |it| it.held.is_some())
        .await;
    move_secret(&bench, "old", "away");
    let bench = bench.restarted(of_trial("bad", "bad")).await;
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(status.phase, Phase::Waiting);
    assert!(status.refused.unwrap().reason.contains("/old"));
    // Another version may serve.
    bench.set_desired(of_trial("mended", "bad")).await;
    assert_eq!((bench.number(), bench.reconciler.status().held), (4, None));
}
