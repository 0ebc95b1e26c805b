//! Several controllers share one set of records and one is elected: only that one changes them, and a host that takes over knows which version owns
//! them.

use crate::bench::*;
use crate::memory::Memory;
use serde_json::{Value, json};
use std::sync::Arc;
use wasmount_core::names::{DriverName, VolumeId};
use wasmount_core::status::{Phase, RefusalKind};
use wasmount_versions::SwapRequest;

fn schema(version: u32) -> Value {
    json!({ "settings": { "schema": version.to_string() } })
}

/// Records as with Kubernetes objects.
fn shared() -> (Arc<Memory>, DriverName) {
    let memory = Arc::<Memory>::default();
    memory.lose_transactions();
    let name = DriverName::parse("shared.wasmount.io").unwrap();
    (memory, name)
}

/// The host is elected.
async fn leads(bench: &Bench) {
    bench.reconciler.take_over(|| true).await.unwrap();
    bench.driver.work_while(|| true);
}

async fn make(bench: &Bench, name: &str) -> VolumeId {
    let made = bench.driver.create_volume(incoming(), create(name)).await;
    made.unwrap().id
}

async fn origin(bench: &Bench, id: &VolumeId) -> String {
    let found = bench.driver.controller_get_volume(incoming(), id.clone());
    let volume = found.await.unwrap().volume;
    volume.context.get("origin").unwrap().to_owned()
}

#[tokio::test]
async fn only_the_leader_migrates_and_a_standby_follows() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(1)).await;
    let other = Bench::beside(memory.clone(), &name, schema(1)).await;
    leads(&leader).await;
    let id = make(&leader, "one").await;
    let status = other.set_desired(schema(2)).await;
    let refused = status.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Migration);
    assert!(
        refused.reason.contains("by the elected controller"),
        "{}",
        refused.reason
    );
    assert_eq!(other.number(), 1);
    // It was not changed: the version that adds reads no record of the first.
    assert_eq!(origin(&leader, &id).await, "1.0.0");
    leader.set_desired(schema(2)).await;
    assert_eq!(leader.number(), 2);
    assert_eq!(origin(&leader, &id).await, "1.0.0");
    let newer = make(&leader, "two").await;
    // The standby reacts to that without a command.
    other.until_serves(2).await;
    leader.driver.stand_by();
    leads(&other).await;
    // The records were not migrated once more, as if they belonged to version 1.
    assert_eq!(origin(&other, &newer).await, "2.0.0");
    assert_eq!(origin(&other, &id).await, "1.0.0");
}

#[tokio::test]
async fn a_new_leader_migrates_records_of_another_version() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(1)).await;
    leads(&leader).await;
    let id = make(&leader, "one").await;
    // It has served version 2 alone, before there was a record.
    let (elsewhere, _) = shared();
    let other = Bench::beside(elsewhere, &name, schema(2)).await;
    let other = other.on(memory.clone(), schema(2)).await;
    assert_eq!(other.number(), 1);
    leader.driver.stand_by();
    leads(&other).await;
    assert_eq!(origin(&other, &id).await, "1.0.0");
    let newer = make(&other, "two").await;
    assert_eq!(origin(&other, &newer).await, "2.0.0");
    // The first version again can read what was only added to.
    other.driver.stand_by();
    leads(&leader).await;
    assert_eq!(origin(&leader, &newer).await, "1.0.0");
}

#[tokio::test]
async fn records_that_others_share_are_never_rewritten() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(1)).await;
    leads(&leader).await;
    let id = make(&leader, "one").await;
    let refusal = {
        leader.set_desired(schema(3)).await;
        let again = leader.reconciler.swap(SwapRequest::default()).await;
        again.unwrap_err().to_string()
    };
    assert!(refusal.contains("objects of Kubernetes"), "{refusal}");
    assert_eq!(leader.number(), 1);
    assert_eq!(origin(&leader, &id).await, "1.0.0");
    // A host with such a version does not take over.
    let (elsewhere, _) = shared();
    let other = Bench::beside(elsewhere, &name, schema(3)).await;
    let other = other.on(memory.clone(), schema(3)).await;
    let refusal = other.reconciler.take_over(|| true).await.unwrap_err();
    assert!(
        refusal.to_string().contains("objects of Kubernetes"),
        "{refusal}"
    );
    // A host that is no longer elected does not either.
    leader.reconciler.take_over(|| false).await.unwrap_err();
}

#[tokio::test]
async fn a_version_restored_after_election_checks_the_records() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(1)).await;
    leads(&leader).await;
    let id = make(&leader, "one").await;
    let (elsewhere, _) = shared();
    let other = Bench::beside(elsewhere, &name, schema(2)).await;
    *other.sources.secret.lock().unwrap() = None;
    let other = other.restarted_on(memory.clone(), schema(2)).await;
    other
        .until("it waits", |it| it.phase == Phase::Waiting)
        .await;
    leader.driver.stand_by();
    // As if the version began to serve right before the host was notified that it is elected.
    other.reconciler.take_over(|| true).await.unwrap();
    *other.sources.secret.lock().unwrap() = Some(PASSWORD.to_owned());
    other.until("it serves", |it| it.version.is_some()).await;
    other.driver.work_while(|| true);
    assert_eq!(origin(&other, &id).await, "1.0.0");
    let newer = make(&other, "two").await;
    assert_eq!(origin(&other, &newer).await, "2.0.0");
    // It noted the owner of the records: the first host knows what it takes over.
    other.driver.stand_by();
    leads(&leader).await;
    assert_eq!(origin(&leader, &newer).await, "1.0.0");
}

#[tokio::test]
async fn an_unrestorable_version_yields_to_the_desired_one() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(2)).await;
    leads(&leader).await;
    let id = make(&leader, "one").await;
    let (elsewhere, _) = shared();
    let wary = json!({ "settings": { "schema": "1", "wary": "yes" } });
    let other = Bench::beside(elsewhere, &name, wary).await;
    *other.sources.secret.lock().unwrap() = None;
    let other = other.restarted_on(memory.clone(), schema(2)).await;
    other
        .until("it waits", |it| it.phase == Phase::Waiting)
        .await;
    leader.driver.stand_by();
    leads(&other).await;
    *other.sources.secret.lock().unwrap() = Some(PASSWORD.to_owned());
    other.until("it serves", |it| it.version.is_some()).await;
    assert_eq!(other.number(), 2);
    assert_eq!(origin(&other, &id).await, "2.0.0");
}

#[tokio::test]
async fn the_leader_rolls_records_back_and_a_standby_waits() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(2)).await;
    let other = Bench::beside(memory.clone(), &name, schema(2)).await;
    leads(&leader).await;
    leader.set_desired(schema(1)).await;
    other.set_desired(schema(1)).await;
    let id = make(&leader, "one").await;
    let refusal = other.back(None).await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Migration);
    assert!(
        refusal.to_string().contains("by the elected controller"),
        "{refusal}"
    );
    assert_eq!(other.number(), 2);
    assert_eq!(leader.back(None).await.unwrap().now.number, 1);
    assert_eq!(origin(&leader, &id).await, "1.0.0");
    assert_eq!(other.back(None).await.unwrap().now.number, 1);
}

#[tokio::test]
async fn a_host_that_stands_by_changes_nothing_while_it_admits() {
    let (memory, name) = shared();
    let leader = Bench::beside(memory.clone(), &name, schema(1)).await;
    leads(&leader).await;
    let id = make(&leader, "one").await;
    let other = Bench::beside(memory.clone(), &name, schema(1)).await;
    let before = memory.events();
    put(&build("misbehave", 2), &other.plugin());
    for behaviour in ["destroy-as-another", "destroy-in-check", "destroy-in-probe"] {
        let status = other.set_desired(behaving(behaviour)).await;
        assert!(status.refused.is_some(), "{behaviour}: {status:?}");
    }
    let since = memory.events().split_off(before.len());
    let is_reading = |event: &String| event.starts_with("pool List");
    assert!(since.iter().all(is_reading), "{since:?}");
    assert_eq!(origin(&leader, &id).await, "1.0.0");
}
