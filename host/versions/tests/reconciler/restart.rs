//! Starts of a host: it serves the version in its history, whatever happened to other files.

use crate::bench::*;
use crate::written;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use wasmount_core::error::Error;
use wasmount_core::status::{Phase, RefusalKind};
use wasmount_versions::Refusal;

/// The files of the history; the newer complete one is used.
const HISTORY: [&str; 2] = ["history.0.json", "history.1.json"];

#[tokio::test]
async fn the_version_that_served_serves_again_under_its_number() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    let bench = bench.restarted(behaving("other")).await;
    let status = bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(status.phase, Phase::Serving);
    assert_eq!((bench.number(), bench.reconciler.history().len()), (2, 2));
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
            it.refused.is_some() && it.version.is_some()
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
    bench.until_serves(2).await;
}

#[tokio::test]
async fn an_invalid_document_keeps_the_serving_version() {
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
    bench.set_desired(behaving("other")).await;
    let mut bench = bench;
    for text in [None, Some("{\"format\":"), Some("")] {
        let files = written::files(&bench.folder.path().join("versions"));
        assert!(files.iter().all(|file| file.exists()));
        for file in &files {
            match text {
                None => fs::remove_file(file).unwrap(),
                Some(text) => fs::write(file, text).unwrap(),
            }
        }
        bench = bench.restarted(json!({})).await;
        bench.until("it serves", |it| it.version.is_some()).await;
        assert_eq!(bench.number(), 1);
        bench.calls().await;
        bench.set_desired(behaving("other")).await;
    }
}

#[tokio::test]
async fn a_history_that_was_half_written_is_the_one_before() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    let versions = bench.folder.path().join("versions");
    // What a power cut leaves of the next text.
    fs::write(written::next(&versions), "{\"turn\":\"000").unwrap();
    let bench = bench.restarted(behaving("other")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(bench.number(), 2);
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
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), bench.reconciler.history().len()), (1, 1));
}

#[tokio::test]
async fn a_history_that_is_away_at_the_start_is_waited_for() {
    let bench = Bench::serving().await;
    let [versions, aside] = ["versions", "aside"].map(|name| bench.folder.path().join(name));
    fs::rename(&versions, &aside).unwrap();
    fs::write(&versions, "no directory").unwrap();
    let bench = bench.restarted(json!({})).await;
    let status = bench
        .until("it is refused", |it| it.refused.is_some())
        .await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Disk);
    assert!(status.version.is_none());
    fs::remove_file(&versions).unwrap();
    fs::rename(&aside, &versions).unwrap();
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), bench.reconciler.history().len()), (1, 1));
}

#[tokio::test]
async fn a_secret_changed_while_stopped_makes_a_version() {
    let bench = Bench::serving().await;
    *bench.sources.secret.lock().unwrap() = Some("another-password".to_owned());
    let bench = bench.restarted(json!({})).await;
    bench.until_serves(2).await;
    let [one, two] = [1, 2].map(|number| bench.record(number));
    assert_eq!(one.digest, two.digest);
    assert_eq!(one.settings_digest, two.settings_digest);
    // And once only.
    let bench = bench.restarted(json!({})).await;
    bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!((bench.number(), bench.reconciler.history().len()), (2, 2));
}

#[tokio::test]
async fn secrets_of_a_version_that_was_gone_back_to_are_those_of_then() {
    let bench = Bench::serving().await;
    bench.set_desired(behaving("other")).await;
    *bench.sources.secret.lock().unwrap() = Some("another-password".to_owned());
    bench.back(None).await.unwrap();
    let bench = bench.restarted(json!({})).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), status.phase), (1, Phase::RolledBack));
    bench.reconciler.swap(Default::default()).await.unwrap();
    // The first version, with its current secrets.
    assert_eq!((bench.number(), bench.reconciler.history().len()), (1, 2));
}

#[tokio::test]
async fn what_is_kept_of_a_secret_is_of_no_use_without_the_key() {
    let marks = [Bench::serving().await, Bench::serving().await].map(|bench| {
        let versions = bench.folder.path().join("versions");
        let mode = |name: &str| {
            let file = fs::metadata(versions.join(name)).unwrap();
            file.permissions().mode() & 0o777
        };
        let written = HISTORY
            .into_iter()
            .find(|name| versions.join(name).exists());
        let written = written.unwrap();
        assert_eq!((mode("secrets.key"), mode(written)), (0o600, 0o600));
        for name in bench.names("versions") {
            let content = fs::read(versions.join(name)).unwrap();
            let found = content
                .windows(PASSWORD.len())
                .any(|it| it == PASSWORD.as_bytes());
            assert!(!found);
        }
        let history = fs::read(versions.join(written)).unwrap();
        let history: serde_json::Value = serde_json::from_slice(&history).unwrap();
        history["text"]["entries"][0]["secrets"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    // The same secret has different marks: a list of precomputed digests contains neither.
    assert_eq!(marks[0].len(), 64);
    assert_ne!(marks[0], marks[1]);
}

#[tokio::test]
async fn without_its_key_a_secret_counts_as_changed_once() {
    let bench = Bench::serving().await;
    fs::write(bench.folder.path().join("versions/secrets.key"), "short").unwrap();
    let bench = bench.restarted(json!({})).await;
    bench.until_serves(2).await;
    let bench = bench.restarted(json!({})).await;
    bench.until("it is settled", |it| it.settled >= 1).await;
    assert_eq!(bench.number(), 2);
}

#[tokio::test]
async fn a_drain_lasts_across_restarts_until_work_is_taken_again() {
    let bench = Bench::serving().await;
    let drain = bench
        .reconciler
        .drain("new disks".to_owned(), Duration::ZERO);
    drain.await.unwrap();
    let since = bench.reconciler.status().drained.unwrap().since;
    let bench = bench.restarted(json!({})).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    let refused = bench.driver.create_volume(incoming(), create("x")).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(&refused, Error::NoNewWork { reason } if reason == "new disks"),
        "{refused}"
    );
    let status = bench.reconciler.status();
    assert_eq!(status.phase, Phase::Draining);
    assert_eq!(status.drained.unwrap().since, since);
    // Calls that end work continue.
    bench.calls().await;
    bench.reconciler.undrain().await.unwrap();
    let bench = bench.restarted(json!({})).await;
    let status = bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((status.phase, status.drained), (Phase::Serving, None));
    let made = bench.driver.create_volume(incoming(), create("x")).await;
    made.unwrap();
}

#[tokio::test]
async fn a_drain_that_cannot_be_recorded_is_refused() {
    let bench = Bench::serving().await;
    for name in HISTORY {
        let history = bench.folder.path().join("versions").join(name);
        let _ = fs::remove_file(&history);
        // It cannot be written.
        fs::create_dir(&history).unwrap();
    }
    let drain = bench
        .reconciler
        .drain("new disks".to_owned(), Duration::ZERO);
    let refusal = drain.await.err().unwrap();
    assert!(matches!(refusal, Refusal::Disk { .. }), "{refusal}");
    assert_eq!(bench.reconciler.status().drained, None);
    let made = bench.driver.create_volume(incoming(), create("x")).await;
    made.unwrap();
}
