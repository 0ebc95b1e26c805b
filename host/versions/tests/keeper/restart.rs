//! What a host finds when it starts: the version that its history says, whatever has become of everything else.

use crate::bench::*;
use serde_json::json;
use std::fs;
use wasmount_versions::{Phase, RefusalKind};

#[tokio::test]
async fn the_version_that_served_serves_again_under_its_number() {
    let bench = Bench::serving().await;
    bench.want(behaving("other")).await;
    let bench = bench.restarted(behaving("other")).await;
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(status.phase, Phase::Serving);
    assert_eq!((bench.number(), bench.keeper.history().len()), (2, 2));
    assert_eq!(bench.granted.lock().unwrap().len(), 1);
    bench.calls().await;
}

#[tokio::test]
async fn it_serves_though_its_source_is_away() {
    let bench = Bench::serving().await;
    *bench.sources.away.lock().unwrap() = true;
    fs::remove_file(bench.plugin()).unwrap();
    let bench = bench.restarted(json!({})).await;
    let status = bench
        .until("that is said", |it| {
            it.refused.is_some() && it.current.is_some()
        })
        .await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Source);
    assert_eq!(status.phase, Phase::Serving);
    bench.calls().await;
}

#[tokio::test]
async fn a_document_that_changed_meanwhile_is_followed() {
    let bench = Bench::serving().await;
    let bench = bench.restarted(behaving("other")).await;
    bench
        .until("it follows", |it| {
            it.current.as_ref().is_some_and(|it| it.number == 2)
        })
        .await;
}

#[tokio::test]
async fn a_document_that_is_bad_meanwhile_leaves_the_version_that_served() {
    let bench = Bench::serving().await;
    let bench = bench.restarted(behaving("bad-settings")).await;
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Settings);
    assert_eq!(bench.number(), 1);
    bench.calls().await;
}

#[tokio::test]
async fn a_history_that_is_lost_begins_anew_with_the_document() {
    let bench = Bench::serving().await;
    let history = bench.folder.path().join("versions/history.json");
    for text in [None, Some("{\"format\":"), Some("")] {
        match text {
            None => fs::remove_file(&history).unwrap(),
            Some(text) => fs::write(&history, text).unwrap(),
        }
    }
    let bench = bench.restarted(json!({})).await;
    bench.until("it serves", |it| it.current.is_some()).await;
    assert_eq!(bench.number(), 1);
    bench.calls().await;
}

#[tokio::test]
async fn a_secret_that_is_missing_at_the_start_is_waited_for() {
    let bench = Bench::serving().await;
    *bench.sources.secret.lock().unwrap() = None;
    let bench = bench.restarted(json!({})).await;
    let status = bench
        .until("it waits", |it| it.phase == Phase::Waiting)
        .await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Secret);
    *bench.sources.secret.lock().unwrap() = Some(PASSWORD.to_owned());
    bench.until("it serves", |it| it.current.is_some()).await;
    assert_eq!((bench.number(), bench.keeper.history().len()), (1, 1));
}
