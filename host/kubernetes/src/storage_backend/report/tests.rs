//! The reports of a host: names, and when they are written.

use super::*;
use crate::tests::api_double::{Reply, api_double};
use http::StatusCode;
use std::sync::Mutex;

fn report(phase: Phase) -> BackendReport {
    BackendReport {
        uid: "u".to_owned(),
        generation: 2,
        phase,
        version: Some("1.0".to_owned()),
        digest: None,
        reason: None,
        rolled_back_by: None,
        last_fault: None,
        volumes: 0,
        rollout: None,
    }
}

/// What a host on a node says that serves.
pub(in crate::storage_backend) fn of_host(host: &str) -> ReportSpec {
    ReportSpec {
        backend: "a".to_owned(),
        host: host.to_owned(),
        on_node: true,
        seen: String::new(),
        short_digest: None,
        report: report(Phase::Serving),
    }
}

fn all(phase: Phase) -> BTreeMap<String, BackendReport> {
    [("a".to_owned(), report(phase))].into()
}

#[test]
fn a_rollback_of_another_build_is_unknown_and_not_an_error() {
    let read = |value: &str| serde_json::from_value::<RolledBackBy>(value.into()).unwrap();
    assert_eq!(read("Administrator"), RolledBackBy::Administrator);
    assert_eq!(read("Somebody"), RolledBackBy::Unknown);
}

#[test]
fn the_names_of_reports_fit_and_differ() {
    let long = "a.".repeat(126);
    let hosts = ["n1", "n2"].map(|host| name(&long, host));
    assert!(hosts.iter().all(|name| name.len() <= 253));
    assert_ne!(hosts[0], hosts[1]);
    // Different pairs of host and backend never have the same name.
    assert_ne!(name("a", "bc"), name("ab", "c"));
    assert!(name("a", "n").starts_with("a."));
}

#[test]
fn a_reason_is_cut_between_two_characters() {
    assert_eq!(cut("é".repeat(600)).len(), REASON_BYTES);
    assert_eq!(cut(format!("x{}", "é".repeat(600))).len(), REASON_BYTES - 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_written_on_change_and_as_a_heartbeat() {
    let refuse = Mutex::new(1);
    let (client, requests) = api_double(move |request| {
        let mut refuse = refuse.lock().unwrap();
        if *refuse > 0 {
            *refuse -= 1;
            return Reply::Failure(StatusCode::SERVICE_UNAVAILABLE);
        }
        Reply::Object(request.body.clone())
    });
    let reporter = Reporter {
        client,
        host: "n".to_owned(),
        on_node: true,
    };
    let (sender, reports) = watch::channel(all(Phase::Loading));
    let (_hosts, rate_limit) = watch::channel(1);
    let task = tokio::spawn(write_reports(reporter, reports, RateLimit(rate_limit)));
    let phases = || {
        let requests = requests.lock().unwrap();
        let phase =
            |it: &crate::tests::api_double::ReceivedRequest| it.body["spec"]["phase"].clone();
        requests.iter().map(phase).collect::<Vec<_>>()
    };
    // The first write is rejected, and repeated; then nothing changes.
    sleep(Duration::from_secs(60)).await;
    assert_eq!(phases(), ["Loading", "Loading"]);
    sender.send_replace(all(Phase::Serving));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(phases(), ["Loading", "Loading", "Serving"]);
    sleep(HEARTBEAT).await;
    assert_eq!(phases().len(), 4);
    task.abort();
    let requests = requests.lock().unwrap();
    let owner = &requests[0].body["metadata"]["ownerReferences"][0];
    assert_eq!(
        (owner["uid"].as_str(), owner["name"].as_str()),
        (Some("u"), Some("a"))
    );
    assert_eq!(requests[0].body["spec"]["onNode"], true);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_report_does_not_silence_the_others() {
    let rejected = name("a", "n");
    let (client, requests) =
        api_double(
            move |request| match request.path.ends_with(&format!("/{rejected}")) {
                true => Reply::Failure(StatusCode::UNPROCESSABLE_ENTITY),
                false => Reply::Object(request.body.clone()),
            },
        );
    let reporter = Reporter {
        client,
        host: "n".to_owned(),
        on_node: true,
    };
    let both = ["a", "b"].map(|name| (name.to_owned(), report(Phase::Serving)));
    let (_sender, reports) = watch::channel(both.into());
    let (_hosts, rate_limit) = watch::channel(1);
    let task = tokio::spawn(write_reports(reporter, reports, RateLimit(rate_limit)));
    let written = || {
        let requests = requests.lock().unwrap();
        let other = requests
            .iter()
            .filter(|it| it.body["spec"]["backend"] == "b");
        other.count()
    };
    sleep(HEARTBEAT / 2).await;
    assert_eq!(written(), 1);
    // A pause after a failure may delay the sign, but not by as long as a heartbeat.
    for signs in 2..5 {
        sleep(2 * HEARTBEAT).await;
        assert!(written() >= signs, "{} of {signs}", written());
    }
    task.abort();
}
