//! What waits for calls of clients: records and grants change when no call runs. Everything else continues meanwhile.

use crate::bench::*;
use crate::written;
use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use wasmount_core::error::Error;
use wasmount_core::names::VolumeId;
use wasmount_core::status::{Draining, RefusalKind};
use wasmount_core::volume::Volume;
use wasmount_versions::{Refusal, SwapRequest, VersionEvent};

/// Far less than any useless wait here would take: `versions.drain` is a minute.
const SOON: Duration = Duration::from_secs(20);
/// How long calls may take to end before grants change.
const BEFORE_GRANTS: Duration = Duration::from_secs(5);

/// A call that ends only when the test allows it.
struct Stuck {
    gate: OwnedRwLockWriteGuard<()>,
    call: JoinHandle<Result<Volume, Error>>,
}

impl Stuck {
    async fn on(bench: &Bench) -> Self {
        let gate = bench.memory.hold();
        let driver = bench.driver.clone();
        let call =
            tokio::spawn(async move { driver.create_volume(incoming(), create("one")).await });
        while bench.driver.calls_in_flight() == 0 {
            sleep(Duration::from_millis(2)).await;
        }
        Self { gate, call }
    }

    /// The client does not notice what was decided meanwhile.
    async fn ends_well(self) {
        drop(self.gate);
        soon(self.call).await.unwrap().unwrap();
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(SOON, what).await.unwrap()
}

fn schema(version: u32) -> Value {
    json!({ "settings": { "schema": version.to_string() } })
}

fn granting(path: &str, drain: &str) -> Value {
    json!({
        "settings": { "schema": "1" },
        "grants": { "pools": { "volumes": { "path": path } } },
        "versions": { "drain": drain },
    })
}

/// Two versions have served, with records of the same format.
async fn serving() -> Bench {
    let bench = Bench::starting("migrant", schema(1)).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    let mut second = schema(1);
    second["settings"]["other"] = json!("x");
    bench.set_desired(second).await;
    assert_eq!(bench.number(), 2);
    bench
}

/// Returns when calls are quiesced: the version that rewrites records has been admitted and waits.
async fn waits(bench: &Bench) {
    soon(async {
        loop {
            let id = VolumeId::parse("id", "none").unwrap();
            let asked = bench.driver.controller_get_volume(incoming(), id);
            if timeout(Duration::from_millis(200), asked).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_rollback_does_not_wait_for_calls_of_a_migration() {
    let bench = serving().await;
    let stuck = Stuck::on(&bench).await;
    let third = SwapRequest {
        desired: Some(bench.desired(schema(3))),
        ..SwapRequest::default()
    };
    let reconciler = bench.reconciler.clone();
    let swap = tokio::spawn(async move { reconciler.swap(third).await });
    waits(&bench).await;
    assert_eq!(soon(bench.back(None)).await.unwrap().now.number, 1);
    let refusal = swap.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::Overtaken), "{refusal}");
    stuck.ends_well().await;
}

#[tokio::test]
async fn a_reconciler_ends_while_a_migration_waits_and_calls_go_on() {
    let bench = serving().await;
    let stuck = Stuck::on(&bench).await;
    bench.reconciler.set_desired(bench.desired(schema(3)));
    waits(&bench).await;
    soon(bench.reconciler.stop()).await;
    let id = VolumeId::parse("id", "none").unwrap();
    let found = soon(bench.driver.controller_get_volume(incoming(), id)).await;
    assert!(matches!(found, Err(Error::Backend(_))), "{found:?}");
    stuck.ends_well().await;
    assert_eq!(bench.number(), 2);
}

#[tokio::test]
async fn a_drain_and_another_document_do_not_wait_for_them_either() {
    let bench = serving().await;
    let stuck = Stuck::on(&bench).await;
    bench.reconciler.set_desired(bench.desired(schema(3)));
    waits(&bench).await;
    let drained = bench
        .reconciler
        .drain("new disks".to_owned(), Duration::ZERO);
    assert_eq!(soon(drained).await.unwrap(), 1);
    assert!(bench.reconciler.status().drained.is_some());
    soon(bench.set_desired(schema(1))).await;
    assert_eq!(bench.number(), 3);
    stuck.ends_well().await;
}

#[tokio::test]
async fn new_grants_wait_for_running_calls() {
    let bench = serving().await;
    let stuck = Stuck::on(&bench).await;
    let status = bench.set_desired(granting("/srv/volumes", "60s")).await;
    let refused = status.refused.unwrap();
    assert_eq!(refused.kind, RefusalKind::Grants);
    assert!(
        refused.reason.contains("calls of the running version did not end within 5 s, and other grants may take from them what they use: CreateVolume; "),
        "{}",
        refused.reason
    );
    assert_eq!(bench.number(), 2);
    assert_eq!(bench.granted.lock().unwrap().len(), 1);
    stuck.ends_well().await;
    // Without a command.
    bench.until_serves(3).await;
    assert_eq!(bench.granted.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn grants_of_a_rollback_do_not_wait_for_hanging_calls() {
    let bench = serving().await;
    bench.set_desired(granting("/srv/volumes", "60s")).await;
    assert_eq!(bench.number(), 3);
    let stuck = Stuck::on(&bench).await;
    let began = Instant::now();
    assert_eq!(soon(bench.back(None)).await.unwrap().now.number, 2);
    assert!(began.elapsed() >= BEFORE_GRANTS);
    assert_eq!(bench.granted.lock().unwrap().len(), 3);
    stuck.ends_well().await;
}

#[tokio::test]
async fn calls_that_outlast_their_drain_are_reported() {
    let bench = serving().await;
    let stuck = Stuck::on(&bench).await;
    let mut events = bench.reconciler.events();
    let mut third = schema(1);
    third["versions"] = json!({ "drain": "1s" });
    bench.set_desired(third).await;
    assert_eq!(bench.number(), 3);
    let late = soon(async {
        loop {
            if let VersionEvent::StillDraining(late) = &*events.recv().await.unwrap() {
                return late.clone();
            }
        }
    });
    let expected = Draining {
        number: 2,
        calls: 1,
    };
    assert_eq!(late.await, expected);
    assert_eq!(bench.reconciler.status().draining, [expected]);
    stuck.ends_well().await;
    assert_eq!(bench.reconciler.status().draining, []);
}

#[tokio::test]
async fn calls_within_their_drain_are_not_reported() {
    let bench = serving().await;
    let stuck = Stuck::on(&bench).await;
    let mut events = bench.reconciler.events();
    let mut third = schema(1);
    third["versions"] = json!({ "drain": "1s" });
    bench.set_desired(third).await;
    stuck.ends_well().await;
    sleep(Duration::from_millis(1500)).await;
    while let Ok(event) = events.try_recv() {
        assert!(matches!(&*event, VersionEvent::Swapped(_)), "{event:?}");
    }
}

/// A document for `misbehave`; a call takes at most three seconds.
fn short(behaviour: &str) -> Value {
    json!({
        "settings": { "behaviour": behaviour },
        "limits": { "time": "3s" },
        "versions": { "drain": "1s", "rollback": { "faults": 3, "window": "60s" } },
    })
}

#[tokio::test]
async fn a_blocked_rollback_is_taken_after_further_faults() {
    let bench = Bench::starting("misbehave", short("good")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    bench.reconciler.stop().await;
    // As if an older plugin had written the records.
    let versions = bench.folder.path().join("versions");
    let mut history = written::newest(&versions);
    history["entries"][0]["record"]["pluginVersion"] = json!("0.0.1");
    written::write(&versions, &history);
    let bench = bench.restarted(short("good")).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    bench.set_desired(short("migrate")).await;
    assert_eq!(bench.number(), 2);

    let mut events = bench.reconciler.events();
    let driver = bench.driver.clone();
    let call = tokio::spawn(async move {
        let id = VolumeId::parse("id", "wait-until-cancelled").unwrap();
        driver.delete_volume(incoming(), id).await
    });
    while bench.driver.calls_in_flight() == 0 {
        sleep(Duration::from_millis(2)).await;
    }
    for _ in 0..3 {
        bench.traps().await;
    }
    let said = soon(async {
        loop {
            if let VersionEvent::CannotRollBack { reason, .. } = &*events.recv().await.unwrap() {
                return reason.clone();
            }
        }
    });
    let said = said.await;
    assert!(
        said.contains("1 call of the running version did not end within 1 s"),
        "{said}"
    );
    let _ = call.await.unwrap();
    for _ in 0..3 {
        bench.traps().await;
    }
    bench.until_serves(1).await;
    assert!(bench.is_rolled_back(2));
}
