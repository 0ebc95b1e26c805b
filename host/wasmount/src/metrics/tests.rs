//! The output of the metrics, and the table in the documentation.

use super::table::ALL;
use super::*;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::registry::Unit;
use std::time::Duration;
use wasmount_core::status::RefusedVersion;
use wasmount_kubernetes::{Gap, GapStart, ListingStatus, RegistrationStatus};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

fn metrics() -> (DriverName, Metrics) {
    let name = DriverName::parse("a.b").unwrap();
    let readiness = Arc::new(Readiness::new([name.clone()]));
    (name, Metrics::new(readiness))
}

fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|it| it == line), "{line} in:\n{text}");
}

/// Metrics of a driver that is registered and watched in CSINode.
fn registered() -> Metrics {
    let (name, metrics) = metrics();
    let readiness = &metrics.readiness;
    readiness.set_host(None);
    readiness.change(&name, |it| it.socket = Some("/s".into()));
    readiness.set_plugin(&name, None);
    let registration = RegistrationStatus {
        registered: true,
        registrations: 3,
        refusals: 2,
        rebinds: 5,
        reason: None,
        gap: Some(Gap {
            length: Duration::from_millis(1500),
            from: GapStart::Stopped,
        }),
    };
    readiness.change(&name, |it| it.registration = Some(registration));
    let listing = ListingStatus {
        drifts: 7,
        ..ListingStatus::default()
    };
    readiness.change(&name, |it| it.listing = Some(listing));
    metrics
}

#[test]
fn what_the_host_knows_of_a_driver_is_shown() {
    let text = registered().text(Format::OpenMetrics);
    for line in [
        "wasmount_driver_ready{driver=\"a.b\"} 0",
        "wasmount_plugin_loaded{driver=\"a.b\"} 1",
        "wasmount_driver_registered{driver=\"a.b\"} 1",
        "wasmount_driver_listed{driver=\"a.b\"} 0",
        "wasmount_registrations_total{driver=\"a.b\"} 3",
        "wasmount_registration_refusals_total{driver=\"a.b\"} 2",
        "wasmount_registration_rebinds_total{driver=\"a.b\"} 5",
        "wasmount_listing_drifts_total{driver=\"a.b\"} 7",
        "wasmount_handover_gap_seconds{driver=\"a.b\"} 1.5",
        concat!(
            "wasmount_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
    ] {
        assert_has(&text, line);
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_host_that_does_not_register_says_nothing_of_registration() {
    let (_, metrics) = metrics();
    let text = metrics.text(Format::OpenMetrics);
    assert!(!text.contains("wasmount_driver_registered{"), "{text}");
    assert!(!text.contains("wasmount_registrations_total{"), "{text}");
}

#[test]
fn counts_of_versions_begin_at_zero_and_end_with_the_driver() {
    let (name, metrics) = metrics();
    let refused = RefusedVersion {
        by_document: true,
        digest: None,
        kind: RefusalKind::Digest,
        reason: "another digest".to_owned(),
        at: Timestamp::UNIX_EPOCH,
    };
    metrics.count(&name, &VersionEvent::Refused(refused));
    let line = "wasmount_plugin_refusals_total{driver=\"a.b\",kind=\"digest\"} 1";
    assert_has(&metrics.text(Format::Plain), line);
    metrics.remove(&name);
    let text = metrics.text(Format::Plain);
    assert!(!text.contains("wasmount_plugin_refusals_total{"), "{text}");
}

#[test]
fn the_process_is_measured() {
    let (_, metrics) = metrics();
    let text = metrics.text(Format::Plain);
    for metric in ALL.iter().filter(|it| it.name.starts_with("process_")) {
        let line = text.lines().find(|line| line.starts_with(metric.name));
        let value = line.and_then(|line| line.rsplit(' ').next()).unwrap();
        // A process that has just started may have used no whole tick of CPU time.
        let least = f64::from(metric.name != "process_cpu_seconds_total");
        assert!(value.parse::<f64>().unwrap() >= least, "{line:?}");
    }
}

#[test]
fn the_table_of_the_docs_is_that_of_the_program() {
    let mut table =
        "| name | type | labels | unit | meaning |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for metric in ALL {
        let (name, kind) = (metric.name, metric.kind.as_str());
        let (_, unit) = metric.family();
        let unit = unit.as_ref().map_or("", Unit::as_str);
        let labels = metric.labels.join(", ");
        let help = metric.help;
        table += &format!("| `{name}` | {kind} | {labels} | {unit} | {help} |\n");
    }
    assert!(
        PAGE.contains(&table),
        "docs/metrics.md must contain this table:\n{table}"
    );
}
