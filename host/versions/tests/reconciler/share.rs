//! A share of the volumes for a new version: how it begins, grows and ends, and what a restart finds.

use crate::bench::*;
use crate::migrate::{schema, serving};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::call::Incoming;
use wasmount_core::error::Error;
use wasmount_core::names::VolumeId;
use wasmount_core::status::{DriverStatus, HeldBy, Phase, RefusalKind, VersionState};
use wasmount_versions::{
    Outcome, Refusal, RollbackRequest, ShareRequest, SwapRequest, VersionEvent,
};

/// Volumes of a test: each share has some of them, and these names are fixed.
const VOLUMES: usize = 60;
/// Restarts of a test: in each a call may meet the moment between the two versions, if the host lets it.
const RESTARTS: usize = 8;

/// A version that answers every call about a volume with an error that no other version gives.
fn marked() -> Value {
    with("error", 3, "60s")
}

/// A version that does this in every call about a volume.
fn with(every_call: &str, faults: u32, window: &str) -> Value {
    json!({
        "settings": { "every-call": every_call },
        "versions": { "rollback": { "faults": faults, "window": window } },
    })
}

async fn asked(bench: &Bench, number: usize) -> Result<(), Error> {
    let id = format!("ok.pvc-{number}");
    let incoming = Incoming {
        subject: Some(id.clone()),
        ..incoming()
    };
    let id = VolumeId::parse("id", id).unwrap();
    let unpublished = bench.driver.controller_unpublish_volume(incoming, id, None);
    unpublished.await
}

/// The volumes whose calls fail: those of a version that is made so.
async fn failing(bench: &Bench) -> Vec<usize> {
    let mut failing = Vec::new();
    for number in 0..VOLUMES {
        if asked(bench, number).await.is_err() {
            failing.push(number);
        }
    }
    failing
}

async fn share(bench: &Bench, spec: Value, percent: u8) -> Result<Outcome, Refusal> {
    let request = SwapRequest {
        desired: Some(bench.desired(spec)),
        share: Some(ShareRequest {
            percent,
            promote_after: None,
        }),
        ..SwapRequest::default()
    };
    bench.reconciler.swap(request).await
}

async fn grow(bench: &Bench, percent: u8, promote_after: Option<u64>) -> Result<Outcome, Refusal> {
    let request = SwapRequest {
        share: Some(ShareRequest {
            percent,
            promote_after: promote_after.map(Duration::from_secs),
        }),
        ..SwapRequest::default()
    };
    bench.reconciler.swap(request).await
}

fn has_share(status: &DriverStatus) -> Option<(u64, u8)> {
    let share = status.share.as_ref();
    share.map(|share| (share.number, share.percent))
}

fn refused(attempted: Result<Outcome, Refusal>, reason: &str) {
    let refusal = attempted.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Share);
    assert!(refusal.to_string().contains(reason), "{refusal}");
}

#[tokio::test]
async fn a_share_grows_and_is_promoted_by_command() {
    let bench = Bench::serving().await;
    let outcome = share(&bench, marked(), 10).await.unwrap();
    assert_eq!((outcome.now.number, outcome.share), (2, Some(10)));
    let status = bench.reconciler.status();
    assert_eq!(has_share(&status), Some((2, 10)));
    assert_eq!((bench.number(), status.phase), (1, Phase::Serving));
    let tenth = failing(&bench).await;
    assert!(!tenth.is_empty() && tenth.len() < VOLUMES / 3, "{tenth:?}");
    assert_eq!(failing(&bench).await, tenth);

    grow(&bench, 50, None).await.unwrap();
    let half = failing(&bench).await;
    assert!(half.len() > tenth.len() && half.len() < VOLUMES);
    assert!(tenth.iter().all(|number| half.contains(number)));
    assert!(!grow(&bench, 50, None).await.unwrap().changed);
    refused(grow(&bench, 49, None).await, "only grows");
    assert_eq!(failing(&bench).await, half);

    let outcome = grow(&bench, 100, None).await.unwrap();
    assert_eq!((outcome.before, outcome.now.number), (Some(1), 2));
    let status = bench.reconciler.status();
    assert_eq!((has_share(&status), bench.number()), (None, 2));
    // No document asks for it.
    assert_eq!(status.held.unwrap().by, HeldBy::Swap);
    assert_eq!(failing(&bench).await.len(), VOLUMES);
    assert_eq!(bench.record(1).state, VersionState::Replaced);
    refused(grow(&bench, 100, None).await, "no version has one");
}

#[tokio::test]
async fn a_rollback_ends_a_share_and_holds_the_version() {
    let bench = Bench::serving().await;
    share(&bench, marked(), 50).await.unwrap();
    let from = |from| RollbackRequest { to: None, from };
    let stale = bench.reconciler.rollback(from(Some(1))).await.unwrap_err();
    assert_eq!(stale.kind(), RefusalKind::Overtaken);
    let to = bench.back(Some(2)).await.unwrap_err();
    assert!(to.to_string().contains("serves already"), "{to}");
    let outcome = bench.reconciler.rollback(from(Some(2))).await.unwrap();
    assert_eq!((outcome.before, outcome.now.number), (Some(2), 1));
    let status = bench.reconciler.status();
    assert_eq!(
        (has_share(&status), status.phase),
        (None, Phase::RolledBack)
    );
    assert_eq!(status.held.unwrap().by, HeldBy::Rollback);
    assert!(bench.is_rolled_back(2));
    assert_eq!(failing(&bench).await, [0; 0]);
    assert_eq!(
        bench.back(None).await.unwrap_err().kind(),
        RefusalKind::History
    );
}

#[tokio::test]
async fn faults_in_a_share_end_it_and_no_other_call_fails() {
    let bench = Bench::serving().await;
    let mut events = bench.reconciler.events();
    share(&bench, with("trap", 3, "60s"), 50).await.unwrap();
    let failed = failing(&bench).await;
    // Calls that met the version before the third fault was seen.
    assert!(failed.len() >= 3, "{failed:?}");
    let status = bench.until("it ends", |it| it.share.is_none()).await;
    let held = status.held.unwrap();
    assert!(held.reason.contains("version 2 had 3 faults"), "{held:?}");
    assert_eq!((held.number, held.by), (1, HeldBy::Faults { failed: 2 }));
    assert_eq!(failing(&bench).await, [0; 0]);
    let rolled_back = timeout(PATIENCE, async {
        loop {
            let event = events.recv().await.unwrap();
            if let VersionEvent::RolledBack { from, to, .. } = event.as_ref() {
                return (*from, to.number);
            }
        }
    });
    assert_eq!(rolled_back.await.unwrap(), (2, 1));
    // Neither does it return by the document.
    bench.set_desired(with("trap", 3, "60s")).await;
    assert_eq!((bench.number(), failing(&bench).await.len()), (1, 0));
}

#[tokio::test]
async fn a_share_is_promoted_by_time_without_a_fault() {
    let bench = Bench::serving().await;
    share(&bench, marked(), 50).await.unwrap();
    grow(&bench, 60, Some(1)).await.unwrap();
    assert!(!failing(&bench).await.is_empty());
    let status = bench.until_serves(2).await;
    assert_eq!(has_share(&status), None);
    assert_eq!(failing(&bench).await.len(), VOLUMES);
}

#[tokio::test]
async fn a_version_that_answers_nothing_keeps_its_share() {
    let bench = Bench::serving().await;
    share(&bench, marked(), 50).await.unwrap();
    grow(&bench, 50, Some(1)).await.unwrap();
    // Two such times and a half.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(has_share(&bench.reconciler.status()), Some((2, 50)));
}

#[tokio::test]
async fn a_restart_keeps_a_share_and_both_versions() {
    let bench = Bench::serving().await;
    share(&bench, marked(), 50).await.unwrap();
    let half = failing(&bench).await;
    let mut bench = bench;
    for _ in 0..RESTARTS {
        bench = bench.restarted(json!({})).await;
        // From its first moment no volume of the share meets the other version.
        let mut met = 0;
        while met < half.len() {
            for number in &half {
                match asked(&bench, *number).await {
                    Ok(()) => panic!("volume {number} met the other version"),
                    Err(Error::NoPlugin { .. }) => tokio::task::yield_now().await,
                    Err(_) => met += 1,
                }
            }
        }
    }
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(failing(&bench).await, half);
    let status = bench.reconciler.status();
    assert_eq!((bench.number(), has_share(&status)), (1, Some((2, 50))));
    grow(&bench, 100, None).await.unwrap();
    assert_eq!(bench.number(), 2);
    let bench = bench.restarted(json!({})).await;
    bench.until_serves(2).await;
    assert_eq!(failing(&bench).await.len(), VOLUMES);
}

#[tokio::test]
async fn a_share_that_a_restart_cannot_keep_ends() {
    let bench = Bench::serving().await;
    let mut other = bench.desired(marked());
    other.document.plugin.place =
        wasmount_core::document::PluginPlace::File(bench.folder.path().join("other.wasm"));
    // No other test has this build: the engine would still have its code.
    put(
        &build("misbehave", 79),
        &bench.folder.path().join("other.wasm"),
    );
    let request = SwapRequest {
        desired: Some(other),
        share: Some(ShareRequest {
            percent: 50,
            promote_after: None,
        }),
        ..SwapRequest::default()
    };
    let digest = bench.reconciler.swap(request).await.unwrap().now.digest;
    let bench = bench.restarted_without(&digest, json!({})).await;
    let status = bench.until("it ends", |it| it.held.is_some()).await;
    let held = status.held.unwrap();
    assert!(held.reason.contains("after the restart"), "{held:?}");
    assert_eq!(held.by, HeldBy::Faults { failed: 2 });
    assert_eq!(failing(&bench).await, [0; 0]);
}

#[tokio::test]
async fn a_share_is_not_replaced_by_a_file_but_by_a_changed_object() {
    let bench = Bench::serving().await;
    bench.want_object(json!({})).await;
    share(&bench, marked(), 50).await.unwrap();
    refused(share(&bench, marked(), 60).await, "has one already");
    bench.want_object(json!({})).await;
    assert_eq!(has_share(&bench.reconciler.status()), Some((2, 50)));
    bench
        .set_desired(json!({ "settings": { "setting": "x" } }))
        .await;
    assert_eq!(bench.number(), 1, "a file waits");
    let status = bench
        .want_object(json!({ "settings": { "setting": "y" } }))
        .await;
    assert_eq!((bench.number(), has_share(&status)), (3, None));
    assert!(bench.is_rolled_back(2));
    assert_eq!(failing(&bench).await, [0; 0]);
}

#[tokio::test]
async fn a_swap_to_the_version_that_serves_ends_a_share() {
    let bench = Bench::serving().await;
    share(&bench, marked(), 50).await.unwrap();
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!((outcome.before, outcome.now.number), (Some(2), 1));
    assert!(outcome.changed);
    let status = bench.reconciler.status();
    assert_eq!((has_share(&status), status.held), (None, None));
    assert!(bench.is_rolled_back(2));
    assert_eq!(failing(&bench).await, [0; 0]);
}

#[tokio::test]
async fn versions_that_cannot_serve_at_once_get_no_share() {
    let bench = serving(schema(1)).await;
    refused(share(&bench, schema(2), 10).await, "the same records");
    refused(share(&bench, schema(3), 10).await, "the same records");
    let bench = Bench::serving().await;
    let granting = json!({ "grants": { "filesystems": [{ "type": "tmpfs", "maxBytes": "1Mi" }] } });
    refused(share(&bench, granting, 10).await, "grants");
    let hiding = json!({ "csi": { "hideCapabilities": ["GET_CAPACITY"] } });
    refused(share(&bench, hiding, 10).await, "capabilities");
    let status = bench.reconciler.status();
    assert_eq!((bench.number(), has_share(&status)), (1, None));
    assert_eq!(bench.reconciler.history().len(), 1);
}
