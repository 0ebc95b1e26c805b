//! What Prometheus and Grafana make of a running host: both formats, the dashboard's and the rules' queries, and each alert with its runbook.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tonic::Code;
use wasmount_tests::health::Health;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{VOLUME_BYTES, code};
use wasmount_tests::prometheus::{Metrics, firing, queried, scraped};
use wasmount_tests::requests;
use xtask::workspace::Workspace;

/// What Prometheus 3 sends.
const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// Timeout for the first check of pools.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Labels that Prometheus adds to each series.
const OF_TARGET: &str = "instance";

/// Metrics that need a kubelet, an API server or a storage system: their labels are compared with the table of the docs.
const ELSEWHERE: [&str; 4] = [
    "wasmount_driver_registered",
    "wasmount_driver_listed",
    "wasmount_driver_leader",
    "wasmount_network_requests_total",
];

pub(crate) fn monitoring(file: &str) -> PathBuf {
    let workspace = Workspace::locate().unwrap();
    workspace.root().join("deploy/monitoring").join(file)
}

fn page(file: &str) -> String {
    let workspace = Workspace::locate().unwrap();
    fs::read_to_string(workspace.root().join("docs").join(file)).unwrap()
}

/// The rules, as JSON.
fn rules() -> Vec<Value> {
    let text = fs::read_to_string(monitoring("alerts.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    file["groups"][0]["rules"].as_array().unwrap().clone()
}

/// The queries of rules and dashboard.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let all = rules().into_iter().chain(targets.cloned());
    all.map(|it| it["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The labels of a metric in the table of the docs.
fn documented(metric: &str) -> BTreeSet<String> {
    let page = page("metrics.md");
    let start = format!("| `{metric}` | ");
    let row = page.lines().find_map(|line| line.strip_prefix(&start));
    let labels = row.expect(metric).split(" | ").nth(1).unwrap();
    labels.split(", ").map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_dashboard_and_rules_query_what_a_host_exports() {
    let health = Health::at_a_free_port().unwrap();
    let mut host = Host::start(HostOptions::default()).unwrap();
    host.options().health = health.address();
    host.restart().unwrap();
    let mut clients = host.client().await.unwrap();
    let made = clients.controller.create_volume(requests::create("v", 1));
    made.await.unwrap();
    let start = Instant::now();
    let (content_type, text) = loop {
        let (content_type, text) = health.metrics(OPEN_METRICS).unwrap();
        if text.contains("wasmount_pool_size_bytes{") {
            break (content_type, text);
        }
        assert!(start.elapsed() < PATIENCE, "{text}");
        sleep(PAUSE);
    };
    assert!(
        content_type.starts_with("application/openmetrics-text; version=1.0.0"),
        "{content_type}"
    );
    let exported = scraped(&content_type, &text).unwrap();
    assert!(scraped(&content_type, text.trim_end_matches("# EOF\n")).is_err());
    let (content_type, plain) = health.metrics("*/*").unwrap();
    assert!(
        content_type.starts_with("text/plain; version=0.0.4"),
        "{content_type}"
    );
    assert_eq!(scraped(&content_type, &plain).unwrap(), exported);
    for metric in [
        "wasmount_plugin_cpu_seconds_total",
        "wasmount_plugin_memory_peak_bytes",
        "wasmount_compilations_total",
        "wasmount_store_commit_seconds_total",
        "wasmount_volumes_published",
        "process_resident_memory_bytes",
    ] {
        assert!(exported.contains_key(metric), "{metric} in {text}");
    }
    unknown_queries(&exported);
}

/// The value of a series, by its name and labels.
fn value_of(text: &str, series: &str) -> Option<f64> {
    let mut rest = text.lines().filter_map(|line| line.strip_prefix(series));
    let value = rest.next()?.trim().trim_end_matches(" kB");
    Some(value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_values_are_those_of_the_work_done() {
    let health = Health::at_a_free_port().unwrap();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    // Counters begin again; volumes and pools are looked at once more.
    host.options().health = health.address();
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    orchestrator.created("pvc").await.unwrap();
    orchestrator.created("pvc").await.unwrap();
    let unknown = orchestrator.is_known("no-such-volume").await;
    assert_eq!(code(&unknown), Code::NotFound);
    let start = Instant::now();
    let text = loop {
        let (_, text) = health.metrics("*/*").unwrap();
        if text.contains("wasmount_pool_size_bytes{")
            && text.contains("wasmount_volumes_published{")
        {
            break text;
        }
        assert!(start.elapsed() < PATIENCE, "{text}");
        sleep(PAUSE);
    };
    let value = |name: &str, labels: &str| {
        let series = match labels {
            "" => name.to_owned(),
            labels => format!("{name}{{{labels}}}"),
        };
        value_of(&text, &series).unwrap_or_else(|| panic!("{series} in:\n{text}"))
    };
    let of = "driver=\"directory.wasmount.io\"";
    for (name, labels, expected) in [
        (
            "csi_call_duration_seconds_count",
            "method=\"CreateVolume\",code=\"OK\"",
            2.0,
        ),
        (
            "csi_call_duration_seconds_count",
            "method=\"ValidateVolumeCapabilities\",code=\"NotFound\"",
            1.0,
        ),
        ("csi_calls_in_flight", "", 0.0),
        ("driver_ready", "", 1.0),
        ("driver_phase", "phase=\"Serving\"", 1.0),
        ("driver_held", "", 0.0),
        ("plugin_calls_total", "method=\"CreateVolume\"", 2.0),
        ("plugin_faults_total", "kind=\"trapped\"", 0.0),
        ("plugin_concurrency_used", "", 0.0),
        ("plugin_concurrency_waiting", "", 0.0),
        ("recoveries_total", "outcome=\"failed\"", 0.0),
        ("volumes_staged", "", 1.0),
        ("volumes_published", "", 1.0),
    ] {
        let labels = format!("{of},{labels}");
        let labels = labels.trim_end_matches(',');
        let found = value(&format!("wasmount_{name}"), labels);
        assert_eq!(found, expected, "{name} {labels}");
    }
    let create = format!("{of},method=\"CreateVolume\"");
    let cpu = value("wasmount_plugin_cpu_seconds_total", &create);
    let whole = value("wasmount_plugin_seconds_total", &create);
    assert!(0.0 < cpu && cpu <= whole && whole < 10.0, "{cpu} {whole}");
    assert!(value("wasmount_plugin_memory_peak_bytes", &create) >= 65_536.0);
    let pool = format!("{of},pool=\"volumes\"");
    let [size, used, available, promised] = ["size", "used", "available", "promised"]
        .map(|name| value(&format!("wasmount_pool_{name}_bytes"), &pool));
    assert!(0.0 < used && used < size, "{used} of {size}");
    // A file system with quotas counts what the directory itself takes.
    let volume_bytes = VOLUME_BYTES as f64;
    assert!(
        0.9 * volume_bytes < promised && promised <= volume_bytes,
        "{promised}"
    );
    assert_eq!(available, size - used - promised);
    let status = fs::read_to_string(format!("/proc/{}/status", host.id())).unwrap();
    let resident = value_of(&status, "VmRSS:").unwrap() * 1024.0;
    let shown = value("process_resident_memory_bytes", "");
    assert!(
        resident / 2.0 < shown && shown < resident * 2.0,
        "{shown} {resident}"
    );
    orchestrator.tear_down(&volume).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_shows_what_its_mounter_uses() {
    let health = Health::at_a_free_port().unwrap();
    let options = HostOptions {
        split: Some(0),
        ..HostOptions::default()
    };
    let mut host = Host::start(options).unwrap();
    host.options().health = health.address();
    host.restart().unwrap();
    let of_process = "wasmount_mounter_resident_memory_bytes";
    let start = Instant::now();
    let value = |metric: &str| {
        let (_, text) = health.metrics("*/*").unwrap();
        value_of(&text, metric)
    };
    let until = |what: &str, is_so: &dyn Fn(Option<f64>) -> bool| {
        while !is_so(value(what)) {
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", value(what));
            sleep(PAUSE);
        }
    };
    until(of_process, &|bytes| bytes.is_some_and(|it| it > 1e6));
    let answered = "wasmount_mounter_requests_total{request=\"status\",outcome=\"succeeded\"}";
    until(answered, &|count| count.is_some_and(|it| it > 1.0));
    // What is no longer known is not shown.
    host.mounting().unwrap().process.kill_9().unwrap();
    until(of_process, &|bytes| bytes.is_none());
    let failed = "wasmount_mounter_requests_total{request=\"status\",outcome=\"failed\"}";
    until(failed, &|count| count.is_some_and(|it| it > 0.0));
}

/// Fails if a query names a metric or a label that nobody exports.
fn unknown_queries(exported: &Metrics) {
    let queries = queries();
    let asked = queried(queries.iter().map(String::as_str)).unwrap();
    assert!(asked.len() > ELSEWHERE.len());
    for (metric, labels) in asked {
        let mut known = match exported.get(&metric) {
            Some(labels) => labels.clone(),
            None => {
                assert!(ELSEWHERE.contains(&metric.as_str()), "{metric}");
                documented(&metric)
            }
        };
        known.insert(OF_TARGET.to_owned());
        let unknown: Vec<_> = labels.difference(&known).collect();
        assert!(unknown.is_empty(), "{metric} has no label {unknown:?}");
    }
}

/// Each rule with series by which it fires, and how soon; it does not fire one evaluation earlier, nor with a driver that is well.
#[test]
fn each_alert_fires_in_its_case_and_in_no_other() {
    let of = r#"driver="a.b",instance="n""#;
    let cases = [
        (
            "WasmountPluginNotLoaded",
            5,
            format!("wasmount_plugin_loaded{{{of}}} 0x2000"),
        ),
        (
            "WasmountDriverNotRegistered",
            5,
            format!("wasmount_driver_registered{{{of}}} 0x2000"),
        ),
        (
            "WasmountDriverNotListed",
            15,
            format!("wasmount_driver_listed{{{of}}} 0x2000"),
        ),
        (
            "WasmountNoLeader",
            5,
            format!("wasmount_driver_leader{{{of}}} 0x2000"),
        ),
        (
            "WasmountStorageNotUsable",
            5,
            format!("wasmount_storage_usable{{{of}}} 0x2000"),
        ),
        (
            "WasmountPoolAlmostFull",
            15,
            format!(
                "wasmount_pool_available_bytes{{{of},pool=\"p\"}} 4x2000\n  wasmount_pool_size_bytes{{{of},pool=\"p\"}} 100x2000"
            ),
        ),
        (
            "WasmountVersionRejected",
            15,
            format!("wasmount_driver_phase{{{of},phase=\"Refused\"}} 1x2000"),
        ),
        (
            "WasmountPluginRolledBack",
            3,
            format!("wasmount_plugin_rollbacks_total{{{of},trigger=\"faults\"}} 0 0 0 1x2000"),
        ),
        (
            "WasmountDriverHeld",
            1440,
            format!(
                "wasmount_driver_held{{{of}}} 0x2000\n  wasmount_driver_paused{{{of}}} 1x2000\n  wasmount_driver_drained{{{of}}} 0x2000"
            ),
        ),
        (
            "WasmountPluginFaults",
            3,
            format!("wasmount_plugin_faults_total{{{of},kind=\"trapped\"}} 0 0 0 9x2000"),
        ),
        (
            "WasmountCallsFail",
            11,
            format!(
                "wasmount_csi_call_duration_seconds_count{{{of},method=\"m\",code=\"Internal\"}} 0+1x2000\n  wasmount_csi_call_duration_seconds_count{{{of},method=\"m\",code=\"OK\"}} 0+4x2000"
            ),
        ),
        (
            "WasmountCallsWait",
            5,
            format!("wasmount_plugin_concurrency_waiting{{{of}}} 2x2000"),
        ),
        (
            "WasmountNetworkFails",
            11,
            format!(
                "wasmount_network_requests_total{{{of},grant=\"g\",outcome=\"lost\"}} 0+1x2000\n  wasmount_network_requests_total{{{of},grant=\"g\",outcome=\"succeeded\"}} 0+4x2000"
            ),
        ),
        (
            "WasmountNotRecovered",
            3,
            format!("wasmount_recoveries_total{{{of},outcome=\"failed\"}} 0 0 0 1x2000"),
        ),
    ];
    let well = format!(
        "load 1m
  wasmount_plugin_loaded{{{of}}} 1x2000
  wasmount_driver_leader{{{of}}} 0x2000
  wasmount_driver_leader{{driver=\"a.b\",instance=\"m\"}} 1x2000
  wasmount_pool_available_bytes{{{of},pool=\"p\"}} 6x2000
  wasmount_pool_size_bytes{{{of},pool=\"p\"}} 100x2000
  wasmount_plugin_rollbacks_total{{{of},trigger=\"command\"}} 0+1x2000
  wasmount_plugin_faults_total{{{of},kind=\"trapped\"}} 0 0 0 3x2000
  wasmount_csi_call_duration_seconds_count{{{of},method=\"m\",code=\"Internal\"}} 0+1x2000
  wasmount_csi_call_duration_seconds_count{{{of},method=\"m\",code=\"OK\"}} 0+20x2000
  wasmount_network_requests_total{{{of},grant=\"g\",outcome=\"rejected\"}} 0+1x2000
"
    );
    let file = monitoring("alerts.yaml");
    assert_eq!(firing(&file, "30m", &well).unwrap(), [""; 0]);
    let named: Vec<_> = rules()
        .iter()
        .map(|it| it["alert"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(named, cases.each_ref().map(|(alert, _, _)| *alert));
    for (alert, minutes, series) in &cases {
        let load = format!("load 1m\n  {series}\n");
        let at = |minutes: u32| firing(&file, &format!("{minutes}m"), &load).unwrap();
        assert_eq!(at(*minutes), [*alert]);
        assert_eq!(at(minutes - 1), [""; 0], "{alert}");
    }
}

#[test]
fn each_alert_has_a_runbook_of_its_own() {
    let page = page("alerts.md");
    let titles: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let rules = rules();
    let named: Vec<_> = rules
        .iter()
        .map(|it| it["alert"].as_str().unwrap())
        .collect();
    assert_eq!(titles, named);
    for rule in &rules {
        let alert = rule["alert"].as_str().unwrap().to_lowercase();
        let url = rule["annotations"]["runbook_url"].as_str().unwrap();
        assert!(url.ends_with(&format!("docs/alerts.md#{alert}")), "{url}");
    }
}
