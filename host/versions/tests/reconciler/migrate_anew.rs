//! Records whose history is gone: an object was deleted and created again, or the history was renamed.

use crate::bench::*;
use crate::migrate::{all, make, origin, schema, serving};
use crate::written;
use serde_json::{Value, json};
use std::fs;
use wasmount_core::state::{Expect, Keyspace, KeyspaceOwner, Outcome, StateStore};
use wasmount_core::status::{Phase, RefusalKind};

/// The same with a setting that no version reads.
fn schema_with(version: u32, setting: &str) -> Value {
    json!({ "settings": { "schema": version.to_string(), "setting": setting } })
}

/// The same records under a document that was created again.
async fn made_anew(bench: Bench, spec: Value) -> Bench {
    bench.reconciler.forget().await.unwrap();
    let bench = bench.restarted(spec).await;
    bench
        .until("it is settled", |it| {
            it.version.is_some() || it.refused.is_some()
        })
        .await;
    bench
}

#[tokio::test]
async fn a_recreated_backend_migrates_the_records_it_finds() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    let bench = made_anew(bench, schema(3)).await;
    assert_eq!((bench.number(), bench.reconciler.history().len()), (1, 1));
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
    // The owner of the records is known as well, without a swap.
    let bench = made_anew(bench, schema(3)).await;
    let there = all(&bench).await;
    let bench = made_anew(bench, schema_with(3, "other")).await;
    assert_eq!(all(&bench).await, there);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn a_recreated_backend_needs_readable_records() {
    let bench = serving(schema(1)).await;
    make(&bench, "one").await;
    bench.set_desired(schema(3)).await;
    let before = all(&bench).await;
    let bench = made_anew(bench, schema(1)).await;
    let status = bench.reconciler.status();
    assert_eq!((status.version, status.phase), (None, Phase::Waiting));
    assert_eq!(status.refused.unwrap().kind, RefusalKind::Migration);
    assert_eq!(all(&bench).await, before);
}

#[tokio::test]
async fn an_earlier_history_is_no_rollback_target() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    bench.set_desired(schema(3)).await;
    let there = all(&bench).await;
    // Nothing was written since: by number alone, the replaced records would be taken for those before version 2.
    let bench = made_anew(bench, schema(3)).await;
    bench.set_desired(schema_with(3, "other")).await;
    assert_eq!(bench.back(None).await.unwrap().now.number, 1);
    assert_eq!(all(&bench).await, there);
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn a_history_that_cannot_be_read_takes_no_record_along() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    let versions = bench.folder.path().join("versions");
    for file in written::files(&versions) {
        fs::write(file, "{\"turn\":").unwrap();
    }
    let bench = bench.restarted(schema(2)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    assert_eq!((bench.number(), bench.reconciler.history().len()), (1, 1));
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn a_start_records_the_owner_version_if_missing() {
    let bench = serving(schema(1)).await;
    let id = make(&bench, "one").await;
    let space = Keyspace {
        driver: bench.driver.name().clone(),
        owner: KeyspaceOwner::Host,
    };
    let removed = bench.memory.remove(&space, "made-for", Expect::Any).await;
    assert_ne!(removed.unwrap(), Outcome::Done(0), "there was a note");
    let bench = bench.restarted(schema(1)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    let bench = made_anew(bench, schema(2)).await;
    assert_eq!(origin(&bench, &id).await.as_deref(), Some("1.0.0"));
}
