//! Records in a rollback to an older version, and in a swap forward again: no version serves over records that it cannot read.

use crate::bench::*;
use crate::migrate::{all, make, origin, schema, serving};
use crate::written;
use serde_json::{Value, json};
use std::fs;
use wasmount_core::state::{Keyspace, KeyspaceOwner, StateStore};
use wasmount_core::status::RefusalKind;
use wasmount_versions::SwapRequest;

/// The same with a setting that no version reads.
fn schema_with(version: u32, setting: &str) -> Value {
    json!({ "settings": { "schema": version.to_string(), "setting": setting } })
}

/// The same, where this many versions are kept.
fn keeping(version: u32, setting: &str, keep: u32) -> Value {
    let mut spec = schema_with(version, setting);
    spec["versions"] = json!({ "keep": keep });
    spec
}

/// The host's notes about migrations.
async fn notes(bench: &Bench) -> Vec<String> {
    // Notes are cleaned up before the next command.
    bench.reconciler.undrain().await.unwrap();
    let space = Keyspace {
        driver: bench.driver.name().clone(),
        owner: KeyspaceOwner::Host,
    };
    let entries = bench.memory.scan(&space, "", None, 1000).await.unwrap();
    let keys = entries.into_iter().map(|entry| entry.key);
    keys.filter(|key| key.starts_with("migration/") || key.starts_with("replaced/"))
        .collect()
}

/// The version that created each volume.
async fn origins(bench: &Bench, ids: &[String]) -> Vec<Option<String>> {
    let mut origins = Vec::new();
    for id in ids {
        origins.push(origin(bench, id).await);
    }
    origins
}

fn versions(words: &[&str]) -> Vec<Option<String>> {
    words.iter().map(|word| Some((*word).to_owned())).collect()
}

#[tokio::test]
async fn forward_again_to_a_version_that_rewrites_is_to_rewrite_again() {
    let bench = serving(schema(1)).await;
    let mut ids = vec![make(&bench, "one").await];
    bench.set_desired(schema(3)).await;
    bench.back(None).await.unwrap();
    ids.push(make(&bench, "two").await);
    let before = all(&bench).await;
    assert_eq!(bench.back(Some(2)).await.unwrap().now.number, 2);
    assert_eq!(origins(&bench, &ids).await, versions(&["1.0.0", "1.0.0"]));
    // The rollback is possible as it was the first time, and ends the same way.
    assert_eq!(bench.back(Some(1)).await.unwrap().now.number, 1);
    assert_eq!(all(&bench).await, before);
    bench.back(Some(2)).await.unwrap();
    make(&bench, "three").await;
    let refusal = bench.back(Some(1)).await.unwrap_err().to_string();
    assert!(
        refusal.starts_with("version 1 cannot read what was written since version 2"),
        "{refusal}"
    );
}

#[tokio::test]
async fn returning_to_an_additive_version_migrates_again() {
    let bench = serving(schema(1)).await;
    let mut ids = vec![make(&bench, "one").await];
    bench.set_desired(schema(2)).await;
    ids.push(make(&bench, "two").await);
    bench.back(None).await.unwrap();
    ids.push(make(&bench, "three").await);
    assert_eq!(bench.back(Some(2)).await.unwrap().now.number, 2);
    assert_eq!(
        origins(&bench, &ids).await,
        versions(&["1.0.0", "2.0.0", "1.0.0"])
    );
    // A swap to it finds that it already serves.
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!((outcome.now.number, outcome.changed), (2, false));
}

#[tokio::test]
async fn a_rollback_asks_the_version_about_later_records() {
    let bench = serving(schema(2)).await;
    let mut ids = vec![make(&bench, "one").await];
    // It reads the records, and writes some that the other version does not read.
    bench.set_desired(schema(1)).await;
    ids.push(make(&bench, "two").await);
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
    assert_eq!(origins(&bench, &ids).await, versions(&["2.0.0", "1.0.0"]));
}

#[tokio::test]
async fn an_additive_version_allows_rollback() {
    let wary = json!({ "settings": { "schema": "1", "wary": "yes" } });
    let bench = serving(wary).await;
    let mut ids = vec![make(&bench, "one").await];
    bench.set_desired(schema(2)).await;
    ids.push(make(&bench, "two").await);
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
    assert_eq!(origins(&bench, &ids).await, versions(&["1.0.0", "1.0.0"]));
}

#[tokio::test]
async fn a_rewriting_older_version_needs_a_swap() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    bench.set_desired(schema(3)).await;
    bench.back(None).await.unwrap();
    let pinned = SwapRequest {
        desired: Some(bench.desired(schema_with(1, "other"))),
        ..SwapRequest::default()
    };
    bench.reconciler.swap(pinned).await.unwrap();
    let before = all(&bench).await;
    let refusal = bench.back(Some(2)).await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Migration);
    assert!(
        refusal.to_string().contains(
            "version 2 would rewrite them, which is possible in a swap only: swap to it instead"
        ),
        "{refusal}"
    );
    assert_eq!((bench.number(), all(&bench).await), (3, before));
    let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    assert_eq!(outcome.now.number, 4);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn restored_records_are_served_by_a_version_that_reads_them() {
    let bench = serving(schema(2)).await;
    make(&bench, "one").await;
    bench.set_desired(schema_with(2, "other")).await;
    bench.set_desired(schema(1)).await;
    let id = make(&bench, "two").await;
    let before = all(&bench).await;
    bench.set_desired(schema(3)).await;
    let refusal = bench.back(Some(1)).await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Migration);
    assert!(
        refusal
            .to_string()
            .ends_with("what can be put back is of version 3, in another form than that of version 1; roll back to version 3 first"),
        "{refusal}"
    );
    assert_eq!(bench.number(), 4);
    assert_eq!(bench.back(Some(3)).await.unwrap().now.number, 3);
    assert_eq!(all(&bench).await, before);
    // From there it is its own to plan.
    assert_eq!(bench.back(Some(1)).await.unwrap().now.number, 1);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn the_rollback_of_a_kept_version_is_not_forgotten() {
    let bench = serving(keeping(1, "first", 3)).await;
    let id = make(&bench, "one").await;
    bench.set_desired(keeping(1, "second", 3)).await;
    bench.set_desired(keeping(1, "third", 3)).await;
    bench.back(Some(1)).await.unwrap();
    let before = all(&bench).await;
    bench.set_desired(keeping(3, "fourth", 3)).await;
    bench.reconciler.swap(SwapRequest::default()).await.unwrap();
    let fifth = SwapRequest {
        desired: Some(bench.desired(keeping(3, "fifth", 3))),
        ..SwapRequest::default()
    };
    bench.reconciler.swap(fifth).await.unwrap();
    let kept = |number| bench.record(number).is_kept;
    assert_eq!([1, 2, 3, 4, 5].map(kept), [false, true, false, true, true]);
    assert_ne!(notes(&bench).await, Vec::<String>::new());
    assert_eq!(bench.back(Some(2)).await.unwrap().now.number, 2);
    assert_eq!(all(&bench).await, before);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn a_rollback_is_forgotten_with_its_last_target() {
    let bench = serving(keeping(1, "first", 2)).await;
    make(&bench, "one").await;
    bench.set_desired(keeping(3, "second", 2)).await;
    assert_ne!(notes(&bench).await, Vec::<String>::new());
    bench.set_desired(keeping(3, "third", 2)).await;
    assert!(!bench.record(1).is_kept);
    assert_eq!(notes(&bench).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_host_restarts_with_the_version_of_restored_records() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    bench.set_desired(schema_with(1, "other")).await;
    let before = all(&bench).await;
    bench.set_desired(schema(3)).await;
    bench.back(Some(1)).await.unwrap();
    // As if it had been killed while it wrote that the version serves: the incomplete file is detected, and the text before it is used.
    let versions = bench.folder.path().join("versions");
    let next = written::next(&versions);
    let files = written::files(&versions);
    let newest = files.iter().find(|file| **file != next).unwrap();
    fs::write(newest, "").unwrap();
    let bench = bench.restarted(schema(3)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), all(&bench).await), (1, before));
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}
