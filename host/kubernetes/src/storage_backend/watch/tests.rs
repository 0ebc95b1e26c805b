//! The desired backends after each event, and after a start without the API server.

use super::super::object::Leaving;
use super::super::object::tests::{object, spec};
use super::*;
use serde_json::{Value, json};

fn named(name: &str, driver: &str, created: &str) -> BackendObject {
    let mut spec = spec();
    spec["driverName"] = json!(driver);
    let mut made = object(name, spec);
    made.metadata.creation_timestamp = Some(serde_json::from_value(json!(created)).unwrap());
    made
}

fn host() -> HostIdentity {
    HostIdentity {
        name: "n".to_owned(),
        on_node: true,
    }
}

fn opened() -> (tempfile::TempDir, Arc<StorageBackends>) {
    let directory = tempfile::tempdir().unwrap();
    let opened = StorageBackends::open(directory.path().join("kept.json"), host());
    (directory, opened)
}

fn list(backends: &StorageBackends, objects: &[BackendObject]) {
    backends.take(Event::Init);
    for object in objects {
        backends.take(Event::InitApply(object.clone()));
    }
    backends.take(Event::InitDone);
}

fn leaving(backends: &StorageBackends) -> Vec<(String, Option<Leaving>)> {
    let desired = backends.desired().borrow().clone();
    let all = desired.into_values();
    all.map(|it| (it.name.clone(), it.leaving)).collect()
}

#[test]
fn nothing_is_wanted_until_it_was_listed() {
    let (_directory, backends) = opened();
    backends.take(Event::Init);
    backends.take(Event::InitApply(object("a", spec())));
    assert_eq!(leaving(&backends), []);
    assert!(!backends.are_known());
    backends.take(Event::InitDone);
    assert_eq!(leaving(&backends), [("a".to_owned(), None)]);
    assert!(backends.are_known());
}

#[test]
fn an_empty_first_list_is_a_change_and_a_later_one_is_none() {
    let (_directory, backends) = opened();
    let mut desired = backends.desired();
    for is_change in [true, false] {
        list(&backends, &[]);
        assert!(backends.are_known());
        assert_eq!(desired.has_changed().unwrap(), is_change);
        desired.borrow_and_update();
    }
}

#[tokio::test]
async fn cached_objects_are_desired_after_a_start_without_api_server() {
    let (directory, backends) = opened();
    list(
        &backends,
        &[
            object("a", spec()),
            named("b", "b.example", "2026-01-01T00:00:00Z"),
        ],
    );
    backends.take(Event::Delete(named(
        "b",
        "b.example",
        "2026-01-01T00:00:00Z",
    )));
    backends.keep().await;
    let before = backends.desired().borrow().clone();
    let again = StorageBackends::open(directory.path().join("kept.json"), host());
    assert_eq!(*again.desired().borrow(), before);
    // Until the host has finished with the deleted one.
    assert_eq!(leaving(&again).len(), 2);
    again.forget("b", "another");
    assert_eq!(leaving(&again).len(), 2);
    again.forget("b", "uid-of-b");
    assert_eq!(leaving(&again), [("a".to_owned(), None)]);
}

#[test]
fn an_object_missing_from_a_new_list_is_leaving() {
    let (_directory, backends) = opened();
    list(&backends, &[object("a", spec())]);
    list(&backends, &[]);
    let gone = ("a".to_owned(), Some(Leaving::WhenUnused));
    assert_eq!(leaving(&backends), [gone]);
    list(&backends, &[object("a", spec())]);
    assert_eq!(leaving(&backends), [("a".to_owned(), None)]);
}

#[test]
fn a_status_that_changes_is_no_change_of_what_is_wanted() {
    let (_directory, backends) = opened();
    list(&backends, &[object("a", spec())]);
    let mut desired = backends.desired();
    desired.borrow_and_update();
    let mut reported = object("a", spec());
    reported.status = Some(json!({ "hosts": { "total": 5000 } }));
    backends.take(Event::Apply(reported));
    assert!(!desired.has_changed().unwrap());
    assert_eq!(backends.rate_limit().pause().as_secs(), 50);
    let mut changed = spec();
    changed["settings"] = json!({ "a": "b" });
    backends.take(Event::Apply(object("a", changed)));
    assert!(desired.has_changed().unwrap());
}

#[test]
fn the_older_of_two_objects_of_a_driver_serves() {
    let (_directory, backends) = opened();
    let older = named("z", "a.example", "2026-01-01T00:00:00Z");
    let newer = named("a", "a.example", "2026-01-02T00:00:00Z");
    list(&backends, &[older, newer]);
    let desired = backends.desired().borrow().clone();
    assert!(desired["z"].document.is_ok());
    let message = desired["a"].document.clone().unwrap_err();
    assert!(
        message.contains("StorageBackend z, which is older"),
        "{message}"
    );
}

#[test]
fn an_object_that_cannot_be_read_harms_no_other() {
    let (_directory, backends) = opened();
    let mut broken = object("b", Value::Null);
    broken.status = Some(json!("nonsense"));
    list(&backends, &[object("a", spec()), broken]);
    let desired = backends.desired().borrow().clone();
    assert!(desired["a"].document.is_ok());
    assert!(desired["b"].document.is_err());
}
