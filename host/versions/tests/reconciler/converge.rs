//! Following a document: what makes a new version, what is rejected, and what a rejection leaves unchanged.

use crate::bench::*;
use serde_json::json;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::status::{Phase, RefusalKind, VersionState};
use wasmount_versions::VersionEvent;

#[tokio::test]
async fn a_document_is_activated_and_reported() {
    let bench = Bench::serving().await;
    let status = bench.reconciler.status();
    let record = status.version.unwrap();
    assert_eq!((status.phase, record.number), (Phase::Serving, 1));
    assert_eq!(record.plugin, "misbehave.wasmount.io");
    assert!(record.digest.starts_with("sha256:"), "{}", record.digest);
    assert_eq!(record.state, VersionState::Serving);
    assert_eq!(record.origin, bench.plugin().display().to_string());
    assert_eq!(bench.granted.lock().unwrap().len(), 1);
    bench.calls().await;
}

#[tokio::test]
async fn the_same_again_is_no_other_version() {
    let bench = Bench::serving().await;
    bench.set_desired(json!({})).await;
    bench.replace(&build("misbehave", 1));
    let asked = bench.sources.asked.load(Ordering::SeqCst);
    while bench.sources.asked.load(Ordering::SeqCst) == asked {
        sleep(Duration::from_millis(5)).await;
    }
    bench
        .set_desired(json!({ "versions": { "keep": 3 } }))
        .await;
    assert_eq!(bench.reconciler.history().len(), 1);
}

#[tokio::test]
async fn code_settings_secrets_and_grants_each_make_another_version() {
    let bench = Bench::serving().await;
    bench.replace(&build("misbehave", 2));
    let number = |number| {
        move |it: &wasmount_core::status::DriverStatus| {
            it.version.as_ref().is_some_and(|it| it.number == number)
        }
    };
    bench.until("the code", number(2)).await;
    bench.set_desired(behaving("other")).await;
    assert_eq!(bench.number(), 3);
    *bench.sources.secret.lock().unwrap() = Some("another".to_owned());
    bench.reconciler.check_again();
    bench.until("the secret", number(4)).await;
    let granted = json!({
        "settings": { "behaviour": "other" },
        "grants": { "pools": { "volumes": { "path": "/srv/volumes" } } },
    });
    bench.set_desired(granted).await;
    assert_eq!(bench.number(), 5);
    let granted = bench.granted.lock().unwrap().clone();
    let pools: Vec<usize> = granted.iter().map(|grants| grants.pools.len()).collect();
    assert_eq!(pools, [0, 1], "only a change is told");
    let digests: Vec<bool> = (2..=5)
        .map(|number| bench.record(number).digest == bench.record(number - 1).digest)
        .collect();
    assert_eq!(digests, [false, true, true, true]);
}

#[tokio::test]
async fn a_desired_revision_is_reported_before_its_attempt() {
    let bench = Bench::serving().await;
    let before = bench.reconciler.status();
    assert_eq!(before.settled, before.desired);
    // On one thread, and without waiting: the reconcile loop cannot have taken it.
    let wish = bench
        .reconciler
        .set_desired(bench.desired(behaving("other")));
    let status = bench.reconciler.status();
    assert_eq!((status.desired, status.settled), (wish, before.settled));
    assert_eq!((status.phase, bench.number()), (Phase::Serving, 1));
    let status = bench.until("it is settled", |it| it.settled >= wish).await;
    assert_eq!((status.desired, status.version.unwrap().number), (wish, 2));
}

#[tokio::test]
async fn no_secret_is_written_down() {
    let bench = Bench::serving().await;
    for name in bench.names("versions") {
        let bytes = fs::read(bench.folder.path().join("versions").join(&name)).unwrap();
        let found = bytes
            .windows(PASSWORD.len())
            .any(|window| window == PASSWORD.as_bytes());
        assert!(!found, "{name}");
    }
}

#[tokio::test]
async fn a_rejected_version_keeps_the_serving_one() {
    let bench = Bench::serving().await;
    let mut events = bench.reconciler.events();
    let status = bench.set_desired(behaving("bad-settings")).await;
    let refused = status.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Settings);
    assert!(
        refused.reason.contains("`endpoint` is missing"),
        "{}",
        refused.reason
    );
    assert!(refused.digest.is_some());
    assert_eq!((status.phase, bench.number()), (Phase::Serving, 1));
    let event = events.recv().await.unwrap();
    assert!(matches!(&*event, VersionEvent::Refused(told) if *told == refused));
    bench.calls().await;
    // When it is checked again, the same version is neither tried nor reported again.
    bench.set_desired(behaving("bad-settings")).await;
    assert!(events.is_empty());

    let status = bench.set_desired(behaving("mended")).await;
    assert_eq!((status.refused, bench.number()), (None, 2));
}

#[tokio::test]
async fn a_file_that_is_half_written_is_waited_for() {
    let bench = Bench::serving().await;
    let whole = build("misbehave", 2);
    let mut seen = Vec::new();
    for half in [&whole[..0], &whole[..3], &whole[..whole.len() / 2]] {
        fs::write(bench.plugin(), half).unwrap();
        let wish = bench.reconciler.set_desired(bench.desired(json!({})));
        let status = bench.until("it is settled", |it| it.settled >= wish).await;
        seen.push(status.refused.unwrap().kind);
        assert_eq!(bench.number(), 1);
        bench.calls().await;
    }
    assert_eq!(
        seen,
        [
            RefusalKind::NotAComponent,
            RefusalKind::NotAComponent,
            RefusalKind::Compile
        ]
    );
    fs::write(bench.plugin(), &whole).unwrap();
    bench.reconciler.check_again();
    let status = bench.until_serves(2).await;
    assert_eq!(status.refused, None);
}

#[tokio::test]
async fn a_file_replaced_repeatedly_ends_at_the_last_one() {
    let bench = Bench::serving().await;
    for number in 0..20 {
        let mark = if number == 19 { 3 } else { 2 + number % 2 };
        bench.replace(&build("misbehave", mark));
        bench.calls().await;
        sleep(Duration::from_millis(100)).await;
    }
    bench.replace(&build("misbehave", 2));
    let last = bench.desired(json!({}));
    let wish = bench.reconciler.set_desired(last);
    bench.until("it is settled", |it| it.settled >= wish).await;
    bench.calls().await;
    let history = bench.reconciler.history();
    let serving: Vec<_> = history
        .iter()
        .filter(|it| it.state == VersionState::Serving)
        .collect();
    assert_eq!(serving.len(), 1);
    assert_eq!(serving[0].number, history[0].number);
    let wasm = build("misbehave", 2);
    let kept = format!("{}.wasm", &serving[0].digest["sha256:".len()..]);
    let on_disk = fs::read(bench.folder.path().join("versions").join(kept)).unwrap();
    assert!(on_disk == wasm, "another build serves");
}

#[tokio::test]
async fn a_secret_that_comes_late_is_found_without_being_asked_to() {
    let bench = Bench::serving().await;
    *bench.sources.secret.lock().unwrap() = None;
    let status = bench.set_desired(behaving("other")).await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Secret);
    *bench.sources.secret.lock().unwrap() = Some(PASSWORD.to_owned());
    let status = bench.until_serves(2).await;
    assert_eq!(status.refused, None);
}

#[tokio::test]
async fn without_a_version_calls_are_answered_with_the_reason() {
    let bench = Bench::starting("misbehave", json!({})).await;
    fs::write(bench.plugin(), "\x7fELF").unwrap();
    let bench = bench.restarted(behaving("bad-settings")).await;
    let status = bench
        .until("it waits", |it| it.phase == Phase::Waiting)
        .await;
    assert_eq!(status.version, None);
    let refused = bench.delete("v").await.unwrap_err().to_string();
    assert!(refused.contains("not WebAssembly"), "{refused}");
}

#[tokio::test]
async fn a_pause_holds_the_document_back_across_restarts() {
    let bench = Bench::serving().await;
    bench.reconciler.set_paused(true).await.unwrap();
    let status = bench.set_desired(behaving("other")).await;
    assert_eq!((status.phase, bench.number()), (Phase::Paused, 1));
    let bench = bench.restarted(behaving("other")).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((status.phase, bench.number()), (Phase::Paused, 1));
    bench.reconciler.set_paused(false).await.unwrap();
    bench.until_serves(2).await;
}
