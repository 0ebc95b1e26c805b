//! A share of the volumes for a new version: which version a call reaches.

use crate::backend::FakeBackend;
use crate::common::*;
use std::sync::Arc;
use wasmount_core::backend::{GetCapacity, ValidateVolume};
use wasmount_core::call::Incoming;
use wasmount_core::driver::Driver;
use wasmount_core::services::{Service, ServiceSet};
use wasmount_core::state::{Keyspace, KeyspaceOwner, StateStore};

/// Volumes of a test: of a share of 10 % none is among them once in 10^18 names, and these names are fixed.
const VOLUMES: usize = 400;

fn whole() -> Arc<FakeBackend> {
    Arc::new(FakeBackend::new(ServiceSet::new(
        Service::ALL.iter().copied(),
        [],
    )))
}

fn names() -> impl Iterator<Item = String> {
    (0..VOLUMES).map(|number| format!("pvc-{number}"))
}

fn id_of(name: &str) -> String {
    format!("id-of-{name}")
}

fn about(subject: &str) -> Incoming {
    Incoming {
        subject: Some(subject.to_owned()),
        ..incoming()
    }
}

async fn begin(driver: &Arc<Driver>, backend: &Arc<FakeBackend>, percent: u8) {
    driver.recall_places().await.unwrap();
    driver.begin_share(backend.clone(), policy(&[]), percent);
}

async fn make_all(driver: &Arc<Driver>) {
    for name in names() {
        let made = driver.create_volume(about(&name), create(&name)).await;
        assert_eq!(made.unwrap().id.as_str(), id_of(&name));
    }
}

async fn validate(driver: &Arc<Driver>, id: &str) {
    let args = ValidateVolume {
        id: volume_id(id),
        context: attributes(&[]),
        parameters: attributes(&[]),
        mutable_parameters: attributes(&[]),
        capabilities: vec![capability()],
    };
    let valid = driver.validate_volume_capabilities(about(id), args).await;
    valid.unwrap();
}

/// The names whose volumes this version answers for.
async fn served_by(driver: &Arc<Driver>, backend: &FakeBackend) -> Vec<String> {
    let mut served = Vec::new();
    for name in names() {
        let before = backend.script.count("validate_volume");
        validate(driver, &id_of(&name)).await;
        if backend.script.count("validate_volume") > before {
            served.push(name);
        }
    }
    served
}

/// The names whose volumes this version created.
fn made_by(backend: &FakeBackend) -> Vec<String> {
    let calls = backend.script.calls();
    let made = calls
        .iter()
        .filter_map(|call| call.strip_prefix("create_volume "));
    made.map(str::to_owned).collect()
}

fn own_keys(driver: &Driver) -> Keyspace {
    Keyspace {
        driver: driver.name().clone(),
        owner: KeyspaceOwner::Host,
    }
}

async fn recorded(bench: &Bench) -> usize {
    let space = own_keys(&bench.driver);
    let found = bench.state.scan(&space, "share/", None, 1000).await;
    found.unwrap().len()
}

#[tokio::test]
async fn a_volume_keeps_its_version_while_a_share_grows() {
    let bench = full(&[]);
    let driver = &bench.driver;
    let new = whole();
    begin(driver, &new, 10).await;
    make_all(driver).await;
    let made = made_by(&new);
    assert!((20..=60).contains(&made.len()), "{}", made.len());
    assert_eq!(made.len() + made_by(&bench.backend).len(), VOLUMES);
    // The ids have other places than the names, and each volume stays with the version that created it.
    assert_eq!(served_by(driver, &new).await, made);
    assert_eq!(served_by(driver, &new).await, made);
    driver.grow_share(50);
    let grown = served_by(driver, &new).await;
    assert!((160..=240).contains(&grown.len()), "{}", grown.len());
    assert!(made.iter().all(|name| grown.contains(name)));
}

#[tokio::test]
async fn without_a_share_every_volume_has_the_one_version() {
    let bench = full(&[]);
    make_all(&bench.driver).await;
    assert_eq!(
        served_by(&bench.driver, &bench.backend).await.len(),
        VOLUMES
    );
    assert_eq!(recorded(&bench).await, 0);
    assert_eq!(bench.driver.calls_answered_in_share(), 0);
    assert!(bench.driver.promote_share().is_none());
    assert!(bench.driver.end_share().is_none());
}

#[tokio::test]
async fn calls_about_no_volume_stay_until_the_promotion() {
    let bench = full(&[]);
    let driver = &bench.driver;
    let new = whole();
    begin(driver, &new, 99).await;
    let capacity = async || {
        let args = GetCapacity {
            capabilities: Vec::new(),
            parameters: attributes(&[]),
            accessible_topology: None,
        };
        driver.get_capacity(incoming(), args).await.unwrap();
        new.script.count("get_capacity")
    };
    assert_eq!(capacity().await, 0);
    let old = driver.promote_share().unwrap();
    assert_eq!(old.count(), 0);
    assert_eq!(capacity().await, 1);
    assert_eq!(served_by(driver, &new).await.len(), VOLUMES);
}

#[tokio::test]
async fn a_share_that_ended_serves_nothing_and_its_calls_end() {
    let bench = full(&[]);
    let driver = &bench.driver;
    let new = whole();
    begin(driver, &new, 99).await;
    let gate = new.script.hold("delete_volume");
    let id = served_by(driver, &new).await.remove(0);
    let id = id_of(&id);
    let (deleting, subject) = (driver.clone(), id.clone());
    let call = tokio::spawn(async move {
        deleting
            .delete_volume(about(&subject), volume_id(&subject))
            .await
    });
    new.script.arrived("delete_volume", 1).await;
    let draining = driver.end_share().unwrap();
    assert_eq!((draining.count(), driver.calls_in_flight()), (1, 1));
    assert_eq!(served_by(driver, &new).await, [""; 0]);
    gate.add_permits(1);
    call.await.unwrap().unwrap();
    draining.ended().await;
    assert_eq!(driver.calls_in_flight(), 0);
}

#[tokio::test]
async fn the_next_process_finds_each_volume_of_a_share() {
    let bench = full(&[]);
    let new = whole();
    begin(&bench.driver, &new, 50).await;
    make_all(&bench.driver).await;
    let made = made_by(&new);
    assert!(recorded(&bench).await > VOLUMES / 2);
    let next = bench.restarted();
    next.activate(bench.backend.clone(), policy(&[]));
    let again = whole();
    begin(&next, &again, 50).await;
    assert_eq!(served_by(&next, &again).await, made);
}

#[tokio::test]
async fn records_of_a_share_are_removed_after_it_and_not_during() {
    let bench = full(&[]);
    let new = whole();
    begin(&bench.driver, &new, 50).await;
    make_all(&bench.driver).await;
    let there = recorded(&bench).await;
    bench.driver.forget_places().await.unwrap();
    assert_eq!(recorded(&bench).await, there);
    bench.driver.end_share();
    bench.driver.forget_places().await.unwrap();
    assert_eq!(recorded(&bench).await, 0);
}
