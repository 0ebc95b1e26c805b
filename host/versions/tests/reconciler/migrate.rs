//! A version that migrates records: they are changed with the swap or not at all, and a rollback restores them as long as it can.
//!
//! The plugin has three versions, chosen by a setting: the second adds to the records of the first, the third rewrites those of both.

use crate::bench::*;
use crate::written;
use serde_json::{Value, json};
use std::time::Duration;
use wasmount_core::names::VolumeId;
use wasmount_core::state::{Expect, Keyspace, KeyspaceOwner, StateStore};
use wasmount_core::status::{Phase, RefusalKind};
use wasmount_versions::{Refusal, SwapRequest};

pub(crate) fn schema(version: u32) -> Value {
    json!({ "settings": { "schema": version.to_string() } })
}

pub(crate) async fn serving(spec: Value) -> Bench {
    let bench = Bench::starting("migrant", spec).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    bench
}

pub(crate) async fn make(bench: &Bench, name: &str) -> String {
    let made = bench.driver.create_volume(incoming(), create(name)).await;
    made.unwrap().id.to_string()
}

/// The version that created a volume, as the running version reads it.
pub(crate) async fn origin(bench: &Bench, id: &str) -> Option<String> {
    let id = VolumeId::parse("id", id).unwrap();
    let found = bench.driver.controller_get_volume(incoming(), id).await;
    let volume = found.ok()?.volume;
    volume.context.get("origin").map(str::to_owned)
}

fn records(bench: &Bench) -> Keyspace {
    Keyspace {
        driver: bench.driver.name().clone(),
        owner: KeyspaceOwner::Backend,
    }
}

/// All records, as text.
pub(crate) async fn all(bench: &Bench) -> Vec<(String, String)> {
    let entries = bench
        .memory
        .scan(&records(bench), "", None, 1000)
        .await
        .unwrap();
    entries
        .into_iter()
        .map(|entry| (entry.key, String::from_utf8(entry.value).unwrap()))
        .collect()
}

#[tokio::test]
async fn an_additive_migration_converts_all_records() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    bench.set_desired(schema(2)).await;
    assert_eq!(bench.number(), 2);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
    let newer = make(&bench, "two").await;
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
    // The first version ignores fields that it does not know.
    assert!(origin(&bench, &id).await.is_some());
    assert!(origin(&bench, &newer).await.is_some());
}

#[tokio::test]
async fn a_rewriting_version_rolls_back_until_a_write() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    let before = all(&bench).await;
    bench.set_desired(schema(3)).await;
    assert_eq!(bench.number(), 2);
    assert_ne!(all(&bench).await, before);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
    assert_eq!(all(&bench).await, before);
    assert!(origin(&bench, &id).await.is_some());
    // And forward again, as the first time.
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!(outcome.now.number, 3);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn a_rollback_after_the_first_write_is_rejected() {
    let bench = serving(schema(1)).await;
    make(&bench, "one").await;
    bench.set_desired(schema(3)).await;
    let newer = make(&bench, "two").await;
    let there = all(&bench).await;
    let refusal = bench.back(None).await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "version 1 cannot read what was written since version 2 took its records over; swap to a corrected version instead"
    );
    assert_eq!((bench.number(), all(&bench).await), (2, there));
    assert_eq!(origin(&bench, &newer).await.as_deref(), Some("3.0.0"));
}

#[tokio::test]
async fn a_removal_is_a_write() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    bench.set_desired(schema(3)).await;
    bench.delete(&id).await.unwrap();
    let refusal = bench.back(None).await.unwrap_err();
    assert!(
        matches!(
            refusal,
            Refusal::Written {
                number: 1,
                since: 2
            }
        ),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_failed_migration_keeps_version_and_records() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    let before = all(&bench).await;
    let stuck = json!({ "settings": { "schema": "3", "stuck": id } });
    let status = bench.set_desired(stuck).await;
    let refused = status.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Migration);
    assert!(refused.reason.contains("stuck at"), "{}", refused.reason);
    assert_eq!((bench.number(), all(&bench).await), (1, before));
    make(&bench, "two").await;
}

#[tokio::test]
async fn unreadable_records_keep_the_version_and_say_how_to_go_on() {
    let bench = serving(schema(3)).await;
    make(&bench, "one").await;
    let status = bench.set_desired(schema(1)).await;
    let refused = status.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Migration);
    assert!(
        refused
            .reason
            .contains("records of version 3.0.0 cannot be read by an older one"),
        "{}",
        refused.reason
    );
    assert_eq!(bench.number(), 1);
}

#[tokio::test]
async fn records_that_do_not_fit_are_refused_before_one_is_written() {
    let bench = serving(schema(1)).await;
    make(&bench, "one").await;
    let before = all(&bench).await;
    let tight = json!({ "settings": { "schema": "3" }, "limits": { "stateBytes": "150" } });
    let refused = bench.set_desired(tight).await.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Migration);
    assert!(
        refused.reason.contains("limits.stateBytes is 150"),
        "{}",
        refused.reason
    );
    assert_eq!((bench.number(), all(&bench).await), (1, before));
}

#[tokio::test]
async fn without_transactions_only_additive_migrations_run() {
    let bench = serving(schema(1)).await;
    bench.memory.lose_transactions();
    let id = make(&bench, "one").await;
    let refused = bench.set_desired(schema(3)).await.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Migration);
    assert!(
        refused.reason.contains("objects of Kubernetes"),
        "{}",
        refused.reason
    );
    assert_eq!(bench.number(), 1);
    bench.set_desired(schema(2)).await;
    assert_eq!(bench.number(), 2);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn calls_wait_while_records_are_changed_and_none_fails() {
    let bench = serving(schema(1)).await;
    for number in 0..400 {
        let space = records(&bench);
        let key = format!("volume-{number}");
        bench
            .memory
            .put(&space, &key, b"4096".to_vec(), Expect::Any)
            .await
            .unwrap();
    }
    let driver = bench.driver.clone();
    let calls = tokio::spawn(async move {
        for number in 0..200 {
            let id = VolumeId::parse("id", format!("volume-{number}")).unwrap();
            driver.controller_get_volume(incoming(), id).await.unwrap();
        }
    });
    bench.set_desired(schema(2)).await;
    bench.set_desired(schema(3)).await;
    assert_eq!(bench.number(), 3);
    calls.await.unwrap();
    // More than two pages: each record was passed once.
    let origins = all(&bench).await;
    assert_eq!(
        origins.len(),
        800,
        "a record and its place in the index each"
    );
}

#[tokio::test]
async fn a_crash_before_migration_starts_the_earlier_version() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    bench.memory.fill_disk();
    let status = bench.set_desired(schema(3)).await;
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Migration);
    bench.memory.empty_disk();
    // As if it had been killed right after it named the next version.
    let versions = bench.folder.path().join("versions");
    let mut history = written::newest(&versions);
    let mut coming = history.clone();
    coming["current"] = json!(2);
    history["prepared"] = coming;
    written::write(&versions, &history);
    let bench = bench.restarted(schema(1)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(bench.number(), 1);
    assert!(origin(&bench, &id).await.is_some());
}

#[tokio::test]
async fn a_crash_after_migration_starts_the_new_version() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    let versions = bench.folder.path().join("versions");
    let before = written::newest(&versions);
    bench.set_desired(schema(3)).await;
    // As if it had been killed right before it wrote that the version serves.
    let after = written::newest(&versions);
    let mut killed = before;
    killed["prepared"] = after;
    written::write(&versions, &killed);
    let bench = bench.restarted(schema(3)).await;
    let status = bench.until("it serves", |it| it.settled >= 1).await;
    assert_eq!((bench.number(), status.phase), (2, Phase::Serving));
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
}

#[tokio::test]
async fn a_hanging_call_blocks_migration() {
    let bench = serving(json!({
        "settings": { "schema": "1" },
        "versions": { "drain": "1s" },
    }))
    .await;
    let held = bench.memory.hold();
    let driver = bench.driver.clone();
    let call = tokio::spawn(async move { driver.create_volume(incoming(), create("one")).await });
    while bench.driver.calls_in_flight() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let waiting = json!({
        "settings": { "schema": "3" },
        "versions": { "drain": "1s" },
    });
    let refused = bench.set_desired(waiting).await.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Migration);
    assert!(
        refused
            .reason
            .contains("1 call of the running version did not end within 1 s (versions.drain), and none may run meanwhile: CreateVolume for 1 s; "),
        "{}",
        refused.reason
    );
    assert_eq!(bench.number(), 1);
    drop(held);
    call.await.unwrap().unwrap();
    // Without a command, once the call has ended.
    bench.until_serves(2).await;
}

#[tokio::test]
async fn a_migration_waits_for_calls_within_the_drain_deadline() {
    let bench = serving(schema(1)).await;
    let held = bench.memory.hold();
    let driver = bench.driver.clone();
    let call = tokio::spawn(async move { driver.create_volume(incoming(), create("one")).await });
    while bench.driver.calls_in_flight() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let wish = bench.reconciler.set_desired(bench.desired(schema(3)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.number(), 1);
    drop(held);
    let made = call.await.unwrap().unwrap();
    let status = bench.until("it is settled", |it| it.settled >= wish).await;
    assert_eq!((bench.number(), status.refused), (2, None));
    let origin = origin(&bench, &made.id.to_string()).await;
    assert_eq!(origin.as_deref(), Some("1.0.0"));
}
