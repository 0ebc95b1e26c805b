//! The output of the metrics, and the table in the documentation.

use super::*;
use std::collections::BTreeSet;
use std::time::Duration;
use wasmount_kubernetes::{Gap, GapStart, ListingStatus, RegistrationStatus};

const PAGE: &str = include_str!("../../../../docs/kubernetes.md");

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
    let text = registered().text();
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
    let text = metrics.text();
    assert!(!text.contains("wasmount_driver_registered{"), "{text}");
    assert!(!text.contains("wasmount_registrations_total{"), "{text}");
}

#[test]
fn the_metrics_table_of_the_docs_lists_every_metric() {
    let text = registered().text();
    let mut shown: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| {
            let (name, type_) = line.split_once(' ').unwrap();
            match type_ {
                "counter" => format!("{name}_total"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            }
        })
        .collect();
    // These are shown once a driver serves and has received a call: `tests/serve.rs` and `tests/events` check them.
    shown.extend(
        [
            "wasmount_csi_call_duration_seconds",
            "wasmount_csi_calls_in_flight",
            "wasmount_network_logins_total",
            "wasmount_network_request_seconds_total",
            "wasmount_network_requests_in_flight",
            "wasmount_network_requests_total",
            "wasmount_network_retries_total",
            "wasmount_plugin_faults_total",
            "wasmount_plugin_info",
            "wasmount_plugin_refusals_total",
            "wasmount_plugin_rollbacks_total",
            "wasmount_plugin_swaps_total",
        ]
        .map(str::to_owned),
    );
    let section = PAGE.split("\n## Metrics\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let documented: BTreeSet<String> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect();
    assert_eq!(documented, shown);
}
