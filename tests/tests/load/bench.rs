//! `wasmount bench` against a real host: what it measures, that it leaves nothing, and what it says when it must leave something.

mod twin;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wasmount_tests::browser::Browser;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{below, directory_pool, left_behind};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use wasmount_tests::rounds::rounds;
use xtask::process::Process;
use xtask::workspace::Workspace;

/// Time of the long run in seconds, and of a short one.
const THOROUGH_SECONDS: usize = 60;
const SECONDS: usize = 10;
/// The RPCs of a life with plugins/directory, as reports have them: in the order of CSI.
const LIFE: [&str; 8] = [
    "Probe",
    "CreateVolume",
    "DeleteVolume",
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeGetVolumeStats",
];
/// How the names of its volumes, files and directories begin.
const PREFIX: &str = "wasmount-bench-";
/// How long something may take that must come. Generous: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A benchmark under way; it is killed if the test fails.
pub(crate) struct Bench {
    child: Option<Child>,
    log: PathBuf,
    /// Its directory of temporary files.
    folder: TempDir,
}

impl Bench {
    pub(crate) fn start(socket: &Path, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let child = Process::command()
            .arg(Workspace::locate().unwrap().host_program())
            .arg("bench")
            .arg(socket)
            .args(["--json", "--warm-up", "0s"])
            .args(arguments)
            .env("TMPDIR", &temporary)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn();
        Self {
            child: Some(child.unwrap()),
            log,
            folder,
        }
    }

    pub(crate) fn interrupt(&self) {
        let id = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for its end; its exit code and its report. It has left no temporary file.
    pub(crate) fn end(mut self) -> (i32, Value) {
        let Output { status, stdout, .. } = self.child.take().unwrap().wait_with_output().unwrap();
        let report = serde_json::from_slice(&stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {}", self.log()));
        assert_eq!(
            below(&self.folder.path().join("tmp")).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        (status.code().unwrap(), report)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A host of plugins/directory that serves.
async fn host(more: &[&str]) -> Host {
    let more = more.iter().map(Into::into).collect();
    let options = HostOptions {
        more,
        ..HostOptions::default()
    };
    let host = Host::start(options).unwrap();
    host.orchestrator().await.unwrap();
    host
}

pub(crate) fn begin() {
    needs_root();
    namespace::enter();
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        sleep(LOOK);
    }
}

/// Nothing is left of any volume, nor of the paths of the run.
fn assert_nothing_is_left(host: &Host, kubelet: &Path) {
    assert_nothing_is_left_in(host, &directory_pool(host), kubelet);
}

/// The same for a pool of another plugin.
fn assert_nothing_is_left_in(host: &Host, pool: &Path, kubelet: &Path) {
    let left = left_behind(host, pool).unwrap();
    assert!(left.is_empty(), "{left:#?}");
    let paths = below(kubelet).unwrap();
    let of_run = paths.iter().filter(|path| text(path).contains(PREFIX));
    assert_eq!(of_run.count(), 0, "{paths:#?}");
}

/// Of each RPC of the first socket, how many were answered and failed.
pub(crate) fn counts(report: &Value) -> Vec<(&str, u64, u64)> {
    let rpcs = report["targets"][0]["rpcs"].as_array().unwrap();
    let count = |it: &Value, key: &str| it[key].as_u64().unwrap();
    let counts = rpcs.iter().map(|it| {
        let name = it["rpc"].as_str().unwrap();
        (name, count(it, "count"), count(it, "failed"))
    });
    counts.collect()
}

/// The texts about what the first socket has left.
fn left(report: &Value) -> Vec<&str> {
    let left = report["targets"][0]["left"].as_array().unwrap();
    left.iter().map(|it| it.as_str().unwrap()).collect()
}

#[tokio::test]
async fn privileged_lives_are_measured_and_leave_nothing() {
    begin();
    let host = host(&[]).await;
    let (kubelet, root) = (host.kubelet(), host.root());
    let page = root.join("report.html");
    let arguments = [
        "-n",
        "20",
        "-c",
        "4",
        "--count-syncs",
        "--kubelet-dir",
        text(&kubelet),
        "--disk",
        text(root),
        "--html",
        text(&page),
    ];
    let (code, report) = Bench::start(host.socket(), &arguments).end();
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(counts(&report), LIFE.map(|rpc| (rpc, 20, 0)));
    let target = &report["targets"][0];
    assert_eq!(target["repetitions"], 20);
    assert_eq!(target["server"]["known"]["pids"][0], host.id());
    assert!(target["server"]["known"]["residentBytes"].as_u64() > Some(1 << 20));
    // At least the record and the pool's directory, before the creation is answered.
    let waits = &target["durableWaits"]["known"];
    assert!(waits["perRepetition"].as_f64() >= Some(2.0), "{report:#}");
    assert!(report["disk"]["fdatasyncP50Us"].as_f64() > Some(0.0));
    assert_nothing_is_left(&host, &kubelet);

    let mut browser = Browser::open(&format!("file://{}", page.display())).unwrap();
    browser
        .until("document.querySelectorAll('svg polyline').length >= 8")
        .unwrap();
    let loaded = "performance.getEntriesByType('resource').length";
    assert_eq!(browser.value(loaded).unwrap(), 0);
    let shown = browser.text().unwrap();
    for rpc in LIFE {
        assert!(shown.contains(rpc), "{shown}");
    }
}

#[tokio::test]
async fn privileged_existing_volumes_are_there_and_leave() {
    begin();
    let host = host(&[]).await;
    let (kubelet, pool) = (host.kubelet(), directory_pool(&host));
    let beside = ["--existing", "20", "--published", "5", "-z", "1h"];
    let arguments = [
        &["--kubelet-dir", text(&kubelet), "--mix", "probe"],
        &beside[..],
    ]
    .concat();
    let bench = Bench::start(host.socket(), &arguments);
    let volumes = || fs::read_dir(&pool).map_or(0, Iterator::count);
    wait_until("all are published", || {
        host.mounts().unwrap().len() == 2 * 5
    });
    wait_until("all exist, with the host's folder", || {
        volumes() == 20 + 5 + 1
    });
    bench.interrupt();
    let (code, report) = bench.end();
    assert_eq!((code, &report["interrupted"]), (1, &Value::Bool(true)));
    assert_eq!(
        (&report["existing"], &report["published"]),
        (&20.into(), &5.into())
    );
    assert_eq!(left(&report), [""; 0]);
    assert_nothing_is_left(&host, &kubelet);
}

#[tokio::test]
async fn privileged_an_interrupted_run_undoes_what_is_open() {
    begin();
    let host = host(&[]).await;
    let kubelet = host.kubelet();
    for mix in ["life", "publish"] {
        let kubelet_dir = ["--kubelet-dir", text(&kubelet)];
        let arguments = [&["-z", "1h", "-c", "4", "--mix", mix], &kubelet_dir[..]].concat();
        let bench = Bench::start(host.socket(), &arguments);
        wait_until("a volume is mounted", || !host.mounts().unwrap().is_empty());
        bench.interrupt();
        let (code, report) = bench.end();
        assert_eq!((code, &report["interrupted"]), (1, &Value::Bool(true)));
        assert_eq!(report["targets"][0]["failed"], 0, "{report:#}");
        assert_eq!(left(&report), [""; 0]);
        assert_nothing_is_left(&host, &kubelet);
    }
}

#[tokio::test]
async fn privileged_a_failed_rpc_is_counted_and_undone() {
    begin();
    let host = host(&[]).await;
    // Without --kubelet-dir the paths are in a directory that the host does not mount below.
    let (code, report) = Bench::start(host.socket(), &["-n", "8", "-c", "2"]).end();
    assert_eq!(code, 1, "{report:#}");
    let expected = [
        ("Probe", 8, 0),
        ("CreateVolume", 8, 0),
        ("NodeStageVolume", 0, 8),
    ];
    assert_eq!(counts(&report), expected);
    let target = &report["targets"][0];
    assert_eq!(
        (&target["repetitions"], &target["failed"]),
        (&0.into(), &8.into())
    );
    let errors = target["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 5, "{report:#}");
    assert!(errors[0].as_str().unwrap().starts_with("NodeStageVolume: "));
    assert_eq!(left(&report), [""; 0]);
    assert_nothing_is_left(&host, &host.kubelet());
}

#[tokio::test]
async fn privileged_what_a_dead_server_keeps_is_named() {
    begin();
    let mut host = host(&[]).await;
    let arguments = ["-z", "1h", "-c", "4", "--mix", "create-delete"];
    let bench = Bench::start(host.socket(), &arguments);
    let pool = directory_pool(&host);
    wait_until("a volume is made", || {
        let volumes = below(&pool).unwrap_or_default();
        volumes.iter().any(|it| text(it).contains("/directory-"))
    });
    host.kill_9().unwrap();
    bench.interrupt();
    wait_until("it waits for the server", || bench.log().contains("SIGINT"));
    bench.interrupt();
    let (code, report) = bench.end();
    assert_eq!((code, &report["interrupted"]), (1, &Value::Bool(true)));
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let left = left(&report);
    assert!((1..=4).contains(&left.len()), "{report:#}");
    for text in left {
        let (_, rest) = text.split_once("the volume ").unwrap();
        let (name, _) = rest.split_once(',').unwrap();
        assert!(name.starts_with(PREFIX), "{text}");
        // Created or not: the request by name returns its id.
        let created = orchestrator.create(requests::create(name, VOLUME_BYTES));
        orchestrator
            .delete(&created.await.unwrap().0)
            .await
            .unwrap();
    }
    assert_nothing_is_left(&host, &host.kubelet());
}

#[tokio::test]
async fn privileged_two_hosts_are_compared_in_turns() {
    begin();
    let kubelet = tempfile::tempdir().unwrap();
    let root = ["--path-root", text(kubelet.path())];
    let (one, other) = (host(&root).await, host(&root).await);
    let arguments = [
        "--compare",
        text(other.socket()),
        "-n",
        "21",
        "-c",
        "2",
        "--rounds",
        "4",
        "--kubelet-dir",
        text(kubelet.path()),
    ];
    let (code, report) = Bench::start(one.socket(), &arguments).end();
    assert_eq!(code, 0, "{report:#}");
    for (target, host) in [(0, &one), (1, &other)] {
        let target = &report["targets"][target];
        assert_eq!(
            (&target["repetitions"], &target["failed"]),
            (&21.into(), &0.into())
        );
        assert_eq!(target["server"]["known"]["pids"][0], host.id());
        assert_nothing_is_left(host, kubelet.path());
    }
    let ratios = report["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), LIFE.len() + 2, "{report:#}");
    assert_eq!(ratios[0]["what"], "RPC/s");
    for ratio in ratios {
        let [low, mean, high] = ["low", "ratio", "high"].map(|it| ratio[it].as_f64().unwrap());
        assert!(0.0 < low && low <= mean && mean <= high, "{ratio:#}");
        assert_eq!(ratio["rounds"], 4);
    }
}

#[tokio::test]
async fn privileged_a_minute_of_load_has_no_error_and_no_leak() {
    begin();
    let host = host(&[]).await;
    let kubelet = host.kubelet();
    let time = format!("{}s", rounds(THOROUGH_SECONDS).max(SECONDS));
    let arguments = ["-z", &time, "-c", "8", "--kubelet-dir", text(&kubelet)];
    let (code, report) = Bench::start(host.socket(), &arguments).end();
    assert_eq!(code, 0, "{report:#}");
    let counts = counts(&report);
    let whole = report["targets"][0]["repetitions"].as_u64().unwrap();
    assert!(whole >= 8, "{report:#}");
    assert_eq!(counts, LIFE.map(|rpc| (rpc, whole, 0)));
    assert_nothing_is_left(&host, &kubelet);
}
