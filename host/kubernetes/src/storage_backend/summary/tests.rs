//! The status for each mixture of reports.

use super::super::object::tests::{object, spec};
use super::super::object::{Leaving, desired};
use super::*;
use crate::storage_backend::report::ReportSpec;
use crate::storage_backend::report::tests::of_host;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn backend() -> DesiredBackend {
    DesiredBackend {
        generation: 2,
        ..desired(&object("a", spec()), true)
    }
}

fn host_report(host: &str, phase: Phase) -> ReportSpec {
    let mut spec = of_host(host);
    let report = &mut spec.report;
    report.phase = phase;
    report.digest = Some(format!("sha256:{}", "0123456789abcdef".repeat(4)));
    report.reason = phase.is_trouble().then(|| format!("{host} is in trouble"));
    report.rolled_back_by = (phase == Phase::RolledBack).then_some(RolledBackBy::PluginFaults);
    spec
}

fn of(backend: &DesiredBackend, reports: &[ReportSpec]) -> Status {
    let heard: Vec<_> = reports.iter().map(HostReport::of).collect();
    summary(backend, &heard, &Status::default(), None, NOW)
}

fn condition(status: &Status, kind: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|it| it.kind == kind).unwrap();
    (
        found.status.clone(),
        found.reason.clone(),
        found.message.clone(),
    )
}

#[track_caller]
fn says(status: &Status, kind: &str, is: &str, reason: &str) {
    let (found, why, message) = condition(status, kind);
    assert_eq!(
        (found.as_str(), why.as_str()),
        (is, reason),
        "{kind}: {message}"
    );
}

#[test]
fn a_backend_that_all_hosts_serve_is_ready_and_nothing_else() {
    let status = of(
        &backend(),
        &["n1", "n2"].map(|host| host_report(host, Phase::Serving)),
    );
    says(&status, "Ready", "True", "Serving");
    says(&status, "Progressing", "False", "Converged");
    says(&status, "Degraded", "False", "NoTrouble");
    says(&status, "RolledBack", "False", "NotRolledBack");
    assert_eq!(status.ready, "2/2");
    assert_eq!(
        status.hosts,
        Hosts {
            total: 2,
            current: 2
        }
    );
    assert_eq!(status.digest.as_deref(), Some("0123456789ab"));
    assert_eq!(status.version.as_deref(), Some("1.0"));
    assert_eq!(status.phases, [("Serving".to_owned(), 2)].into());
}

#[test]
fn a_host_of_an_earlier_generation_is_progressing() {
    let mut late = host_report("n2", Phase::Serving);
    late.report.generation = 1;
    let status = of(&backend(), &[host_report("n1", Phase::Serving), late]);
    says(&status, "Ready", "True", "Serving");
    says(&status, "Progressing", "True", "Converging");
    assert_eq!(status.hosts.current, 1);
}

#[test]
fn a_refused_version_degrades_and_the_one_before_is_ready() {
    let status = of(
        &backend(),
        &[
            host_report("n1", Phase::Serving),
            host_report("n2", Phase::Refused),
        ],
    );
    says(&status, "Ready", "True", "Serving");
    says(&status, "Progressing", "False", "Converged");
    says(&status, "Degraded", "True", "Refused");
    let (_, _, message) = condition(&status, "Degraded");
    assert_eq!(message, "1 of 2 hosts: n2: n2 is in trouble");
}

#[test]
fn trouble_with_an_earlier_generation_is_no_end_of_this_one() {
    for phase in [Phase::Refused, Phase::RolledBack, Phase::Waiting] {
        let mut late = host_report("n2", phase);
        late.report.generation = 1;
        let serving = host_report("n1", Phase::Serving);
        let status = of(&backend(), &[serving.clone(), late]);
        assert_eq!(status.observed_generation, 2);
        says(&status, "Progressing", "True", "Converging");
        // It is shown until the host reports something else.
        says(&status, "Degraded", "True", phase.name());
        let known = of(&backend(), &[serving, host_report("n2", phase)]);
        says(&known, "Progressing", "False", "Converged");
    }
}

#[test]
fn a_version_that_never_served_is_not_ready() {
    let mut first = host_report("n1", Phase::Refused);
    (first.report.digest, first.report.version) = (None, None);
    let status = of(&backend(), &[first]);
    says(&status, "Ready", "False", "NotServing");
    assert_eq!((status.ready.as_str(), status.digest), ("0/1", None));
}

#[test]
fn a_roll_back_has_a_condition_of_its_own() {
    let status = of(
        &backend(),
        &[
            host_report("n1", Phase::Serving),
            host_report("n2", Phase::RolledBack),
        ],
    );
    says(&status, "RolledBack", "True", "PluginFaults");
    says(&status, "Degraded", "True", "RolledBack");
    says(&status, "Ready", "True", "Serving");
}

#[test]
fn a_roll_back_by_hand_is_no_fault_of_the_plugin() {
    let mut by_hand = host_report("n1", Phase::RolledBack);
    by_hand.report.rolled_back_by = Some(RolledBackBy::Administrator);
    let status = of(
        &backend(),
        &[by_hand.clone(), host_report("n2", Phase::Serving)],
    );
    says(&status, "RolledBack", "True", "RolledBackByAdministrator");
    // Faults take precedence, with the message of the host that reported them.
    let status = of(
        &backend(),
        &[by_hand.clone(), host_report("n2", Phase::RolledBack)],
    );
    says(&status, "RolledBack", "True", "PluginFaults");
    let (_, _, message) = condition(&status, "RolledBack");
    assert_eq!(message, "2 of 2 hosts: n2: n2 is in trouble");
    // A host of an earlier build does not report it, and no value is assumed.
    by_hand.report.rolled_back_by = None;
    says(&of(&backend(), &[by_hand]), "RolledBack", "True", "Unknown");
}

#[test]
fn a_silent_host_is_named_whatever_it_said_last() {
    let (one, mut two) = (
        host_report("n1", Phase::Serving),
        host_report("n2", Phase::Serving),
    );
    two.report.generation = 1;
    let heard = [
        HostReport::of(&one),
        HostReport {
            spec: &two,
            silent: true,
            lost: true,
        },
    ];
    let status = summary(&backend(), &heard, &Status::default(), None, NOW);
    says(&status, "Ready", "False", "NotServing");
    says(&status, "Degraded", "True", "Silent");
    says(&status, "Progressing", "False", "Converged");
    assert_eq!(status.troubled.len(), 1);
    assert_eq!(status.troubled[0].host, "n2");
    assert_eq!(status.troubled[0].phase, "Silent");
}

#[test]
fn what_stands_in_the_way_is_said_where_people_look_first() {
    says(&of(&backend(), &[]), "Ready", "False", "NoHost");
    let taken = of(&backend(), &[host_report("n1", Phase::Taken)]);
    says(&taken, "Ready", "False", "DriverTaken");
    let wrong = DesiredBackend {
        document: Err("spec.plugin: no".to_owned()),
        ..backend()
    };
    let invalid = of(&wrong, &[host_report("n1", Phase::Invalid)]);
    says(&invalid, "Ready", "False", "Invalid");
    assert_eq!(condition(&invalid, "Ready").2, "spec.plugin: no");
}

#[test]
fn a_deletion_names_the_hosts_that_it_waits_for() {
    let deleted = DesiredBackend {
        leaving: Some(Leaving::WhenUnused),
        ..backend()
    };
    let mut used = host_report("n1", Phase::Removing);
    used.report.volumes = 3;
    let status = of(&deleted, &[used, host_report("n2", Phase::Removed)]);
    says(&status, "Ready", "False", "Deleting");
    says(&status, "Progressing", "True", "Deleting");
    let (_, _, message) = condition(&status, "Progressing");
    assert!(
        message.starts_with("3 volumes are staged, on n1: "),
        "{message}"
    );
}

#[test]
fn thousands_of_hosts_take_no_more_room_than_ten() {
    let reports: Vec<_> = (0..5000)
        .map(|number| {
            let mut spec = host_report(&format!("n{number}"), Phase::Refused);
            spec.report.digest = Some(format!("sha256:{number:064}"));
            spec.report.reason = Some("x".repeat(1024));
            spec
        })
        .collect();
    let status = of(&backend(), &reports);
    assert_eq!(
        (status.troubled.len(), status.versions.len()),
        (NAMED, NAMED)
    );
    assert_eq!(status.phases["Refused"], 5000);
    let bytes = serde_json::to_vec(&status).unwrap().len();
    assert!(bytes < 32 << 10, "{bytes}");
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let first = of(&backend(), &[host_report("n1", Phase::Serving)]);
    let later = Timestamp::from_second(60).unwrap();
    let report = host_report("n1", Phase::Serving);
    let heard = [HostReport::of(&report)];
    assert_eq!(summary(&backend(), &heard, &first, None, later), first);
    let refused = host_report("n1", Phase::Refused);
    let heard = [HostReport::of(&refused)];
    let next = summary(&backend(), &heard, &first, None, later);
    let time = |kind: &str| {
        let found = next.conditions.iter().find(|it| it.kind == kind);
        found.unwrap().last_transition_time
    };
    assert_eq!((time("Ready"), time("Degraded")), (NOW, later));
}
