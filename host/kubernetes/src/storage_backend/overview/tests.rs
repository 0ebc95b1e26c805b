//! The overview for each mixture of reports, and its pages.

use super::super::object::tests::{object, spec};
use super::*;
use crate::tests::api_double::{Reply, api_double};
use http::StatusCode;
use serde_json::{Value, json};

/// The digests of two components.
const DIGESTS: [&str; 2] = ["sha256:aa", "sha256:bb"];

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// A report that is a minute old, with these fields instead of its own.
fn report(host: &str, fields: Value) -> ReportObject {
    let mut spec = json!({
        "backend": "a", "host": host, "onNode": true, "phase": "Serving", "observedGeneration": 3,
        "version": "1.0", "digest": DIGESTS[0], "seen": "2026-01-01T00:59:00Z",
    });
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let report = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": REPORT_KIND,
        "metadata": { "name": host, "labels": { BACKEND_UID: "uid-of-a" } },
        "spec": spec,
    });
    serde_json::from_value(report).unwrap()
}

fn shown(reports: &[ReportObject]) -> BackendOverview {
    let mut all = made(&[object("a", spec())], reports, now()).backends;
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn reasons(notes: &HostNotes) -> Vec<(&str, &str)> {
    let named = notes.named.iter();
    named
        .map(|it| (it.host.as_str(), it.reason.as_str()))
        .collect()
}

#[test]
fn hosts_that_agree_are_a_number_and_no_names() {
    let all = shown(&["n1", "n2"].map(|host| report(host, json!({}))));
    assert_eq!((all.backend.as_str(), all.ready.as_str()), ("a", "2/2"));
    assert_eq!(all.driver.as_deref(), Some("a.example"));
    assert_eq!(
        all.hosts,
        Hosts {
            total: 2,
            current: 2
        }
    );
    let version = Version {
        digest: DIGESTS[0].to_owned(),
        version: "1.0".to_owned(),
        hosts: 2,
    };
    assert_eq!(all.versions, [version]);
    assert_eq!(all.not_ready, None);
    assert_eq!(all.behind, HostNotes::default());
    assert_eq!(all.troubled, HostNotes::default());
    assert_eq!(all.faulty, HostNotes::default());
}

#[test]
fn a_host_is_behind_for_each_of_three_reasons() {
    let all = shown(&[
        report("n1", json!({})),
        report("n2", json!({})),
        report("n3", json!({ "observedGeneration": 2 })),
        report("n4", json!({ "phase": "Loading" })),
        report("n5", json!({ "digest": DIGESTS[1], "version": "1.1" })),
    ]);
    assert_eq!(
        reasons(&all.behind),
        [
            ("n3", "is at generation 2, the object at 3"),
            ("n4", "Loading"),
            ("n5", "serves another component than most hosts"),
        ]
    );
    let other = &all.behind.named[2];
    assert_eq!(other.version.as_deref(), Some("1.1"));
    assert_eq!(other.digest.as_deref(), Some(DIGESTS[1]));
    assert_eq!(all.troubled.total, 0);
    let hosts: Vec<_> = all.versions.iter().map(|it| it.hosts).collect();
    assert_eq!(hosts, [4, 1]);
}

#[test]
fn a_host_in_trouble_is_not_behind_as_well() {
    let all = shown(&[
        report("n1", json!({})),
        report(
            "n2",
            json!({ "phase": "Refused", "reason": "no signature", "observedGeneration": 2 }),
        ),
        report("n3", json!({ "seen": "2026-01-01T00:39:59Z" })),
    ]);
    assert_eq!(all.behind, HostNotes::default());
    assert_eq!(
        reasons(&all.troubled),
        [
            ("n2", "no signature"),
            ("n3", "has not reported for a while: is the host running?"),
        ]
    );
    assert_eq!(all.troubled.named[1].phase, "Silent");
    assert_eq!(all.not_ready.as_deref(), Some("2 of 3 hosts serve it"));
}

#[test]
fn a_host_is_silent_after_twenty_minutes_and_not_before() {
    for (seen, is) in [
        ("2026-01-01T00:40:00Z", false),
        ("2026-01-01T00:39:59Z", true),
        ("2026-01-01T09:00:00Z", false),
        ("", false),
    ] {
        assert_eq!(is_silent(seen, now()), is, "{seen}");
    }
}

#[test]
fn a_fault_is_shown_for_an_hour_whatever_the_phase() {
    let fault = |host, phase, at| report(host, json!({ "phase": phase, "lastFault": at }));
    let all = shown(&[
        fault("n1", "Serving", "2026-01-01T00:00:00Z"),
        fault("n2", "Serving", "2025-12-31T23:59:59Z"),
        fault("n3", "RolledBack", "2026-01-01T00:59:50Z"),
    ]);
    assert_eq!(
        reasons(&all.faulty),
        [
            (
                "n1",
                "the plugin last failed a call at 2026-01-01T00:00:00Z"
            ),
            (
                "n3",
                "the plugin last failed a call at 2026-01-01T00:59:50Z"
            ),
        ]
    );
    assert_eq!(all.troubled.total, 1);
}

#[test]
fn ten_hosts_are_named_and_all_are_counted() {
    let loading = |number| report(&format!("n{number:02}"), json!({ "phase": "Loading" }));
    let all = shown(&(0..25).rev().map(loading).collect::<Vec<_>>());
    assert_eq!((all.behind.total, all.behind.named.len()), (25, 10));
    assert_eq!(all.behind.named[0].host, "n00");
}

#[test]
fn hosts_are_behind_a_deletion_until_they_have_finished() {
    let mut leaving = object("a", spec());
    let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    leaving.metadata.deletion_timestamp = Some(time);
    let reports = [
        report("n1", json!({ "phase": "Removed" })),
        report("n2", json!({ "phase": "Removing", "volumes": 2 })),
        report("n3", json!({})),
    ];
    let all = made(&[leaving], &reports, now());
    assert_eq!(
        reasons(&all.backends[0].behind),
        [
            ("n2", "2 of its volumes are staged"),
            ("n3", "has not removed it yet"),
        ]
    );
}

#[test]
fn reports_of_an_earlier_object_of_the_name_do_not_count() {
    let mut old = report("n1", json!({}));
    old.metadata.labels = Some([(BACKEND_UID.to_owned(), "another".to_owned())].into());
    let all = shown(&[old]);
    assert_eq!(all.hosts.total, 0);
    let reason = all.not_ready.unwrap();
    assert!(reason.starts_with("no host has reported it"), "{reason}");
}

#[test]
fn an_invalid_object_has_its_reason_and_no_driver() {
    let mut spec = spec();
    spec["driverName"] = json!("-");
    let all = made(&[object("a", spec)], &[], now());
    let shown = &all.backends[0];
    assert_eq!(shown.driver, None);
    let reason = shown.not_ready.as_deref().unwrap();
    assert!(reason.starts_with("spec.driverName: "), "{reason}");
}

fn page(items: &[&ReportObject], next: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "continue": next }, "items": items })
}

#[tokio::test]
async fn all_pages_are_read() {
    let (one, two) = (report("n1", json!({})), report("n2", json!({})));
    let (client, requests) = api_double(move |request| {
        if request.path.ends_with("/storagebackends") {
            let items = [object("a", spec())];
            let metadata = json!({});
            return Reply::Object(
                json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items }),
            );
        }
        Reply::Object(match request.query.contains("continue=second") {
            true => page(&[&two], ""),
            false => page(&[&one], "second"),
        })
    });
    let all = overview(client).await.unwrap();
    assert_eq!(all.backends[0].hosts.total, 2);
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|it| it.query.contains("limit=500")));
}

#[tokio::test]
async fn a_missing_definition_is_told_from_other_failures() {
    let failing = |status| api_double(move |_| Reply::Failure(status)).0;
    let error = overview(failing(StatusCode::NOT_FOUND)).await.unwrap_err();
    assert!(matches!(error, KubernetesError::NoBackends), "{error:?}");
    let error = overview(failing(StatusCode::FORBIDDEN)).await.unwrap_err();
    assert!(
        error
            .describe()
            .starts_with("list StorageBackend objects failed: ")
    );
}
