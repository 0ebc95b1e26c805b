//! `cargo xtask cluster up` as a newcomer meets it: drivers as pods, by the manifests that are printed; what it says to type next, typed word by
//! word; and `down`, also after a crash. Apart from the tests of the cluster because this is the command itself, which has one directory.

#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use wasmount_tests::loop_devices;
use wasmount_tests::root::needs_root;
use xtask::cluster::BUSYBOX_IMAGE;
use xtask::cluster::lab::Lab;
use xtask::command;
use xtask::workspace::Workspace;

/// For `kubectl wait`: seconds on an idle machine.
const PATIENCE: &str = "--timeout=120s";

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Until something is gone, or there.
const SOON: Duration = Duration::from_secs(60);

/// The cluster of this target directory; gone with this, however the test ends.
struct Newcomer {
    workspace: Workspace,
}

impl Newcomer {
    fn begin() -> Self {
        needs_root();
        let workspace = Workspace::locate().unwrap();
        assert!(
            !workspace.cluster().exists(),
            "a cluster of yours is up, or was: `cargo xtask cluster down` makes room for this test's"
        );
        Self { workspace }
    }

    fn xtask(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.workspace.own_program());
        command.arg("cluster").args(arguments);
        command
    }

    /// What it said, once it went well.
    fn cluster(&self, arguments: &[&str]) -> String {
        command::read(&mut self.xtask(arguments)).unwrap()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster(&[&["kubectl", "--"], arguments].concat())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.kubectl(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&printed).unwrap()
    }

    fn apply(&self, objects: &[Value]) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("objects.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&file, list.to_string()).unwrap();
        self.kubectl(&["apply", "--filename", file.to_str().unwrap()]);
    }

    /// A pod that has ended well, and what it said.
    fn said_by(&self, pod: &str) -> String {
        let succeeded = "--for=jsonpath={.status.phase}=Succeeded";
        self.kubectl(&["wait", succeeded, &format!("pod/{pod}"), PATIENCE]);
        self.kubectl(&["logs", pod])
    }

    fn root(&self) -> PathBuf {
        self.workspace.cluster()
    }

    /// Nothing of the cluster is on the machine any more.
    fn assert_nothing_is_left(&self, volumes: &[String]) {
        let root = self.root();
        assert!(!root.exists());
        let name = root.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(name), "{mounts}");
        // What an interrupted command had begun ends by itself, without a cluster to speak to.
        wait_until("its last processes have ended", || {
            processes_of(&root).is_empty()
        });
        let group = Lab::at(&root).unwrap().control_group();
        let find = ["/sys/fs/cgroup", "-maxdepth", "2", "-name", &group];
        assert_eq!(command::read(Command::new("find").args(find)).unwrap(), "");
        assert_eq!(attached(volumes), [""; 0]);
    }

    /// Names of what the drivers' pools hold: no two volumes share one.
    fn volumes(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.arg(self.root().join("lib/wasmount"));
        // What goes while it looks is gone.
        let found = command::try_read(&mut find).unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        let names = found.lines().filter_map(|it| it.rsplit('/').next());
        names
            .filter(|it| is_volume(it))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        // It has said on standard error what it could not do.
        let _ = self.xtask(&["down"]).status();
    }
}

/// Whether the plugins call a volume's file or directory so.
fn is_volume(name: &str) -> bool {
    name.starts_with("image-") || name.starts_with("volume-")
}

/// The loop devices' files that are these volumes.
fn attached(volumes: &[String]) -> Vec<String> {
    let files = loop_devices::backing_files().unwrap();
    let of_these = |file: &String| volumes.iter().any(|it| file.ends_with(it.as_str()));
    files.into_iter().filter(of_these).collect()
}

/// Processes whose command line has this directory.
fn processes_of(root: &Path) -> BTreeSet<i32> {
    let root = root.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|it| {
        let id = it.file_name().to_str()?.parse().ok()?;
        let line = fs::read(it.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(root).then_some(id)
    })
    .collect()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < SOON, "in vain: {what}");
        std::thread::sleep(LOOK);
    }
}

/// The lines that it says to type next.
fn to_type(said: &str) -> Vec<String> {
    let (_, next) = said.split_once("What to type next").unwrap();
    let lines = next.lines().filter_map(|it| it.strip_prefix("  "));
    lines.map(str::to_owned).collect()
}

/// As in a shell, after that one line.
fn typed(before: &str, line: &str) -> String {
    let mut shell = Command::new("sh");
    command::read(shell.args(["-c", &format!("{before}\n{line}")])).unwrap()
}

fn claim(name: &str, class: &str, source: Option<&str>) -> Value {
    let source = source.map(|name| json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}));
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": "16Mi"}},
            "dataSource": source,
        },
    })
}

fn pod(name: &str, claim: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "main",
                "image": BUSYBOX_IMAGE,
                "command": ["/bin/sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

/// Of every container of the drivers: its name, if it is privileged; and the places where its mounts show outside.
fn privileges(daemon_sets: &Value) -> BTreeSet<(String, String)> {
    let containers = daemon_sets
        .pointer("/items")
        .and_then(Value::as_array)
        .unwrap()
        .iter();
    let containers = containers.flat_map(|it| {
        it.pointer("/spec/template/spec/containers")
            .and_then(Value::as_array)
            .unwrap()
    });
    let mut found = BTreeSet::new();
    for container in containers {
        let name = container.get("name").and_then(Value::as_str).unwrap();
        if container.pointer("/securityContext/privileged") == Some(&json!(true)) {
            found.insert((name.to_owned(), "privileged".to_owned()));
        }
        for mount in container
            .get("volumeMounts")
            .and_then(Value::as_array)
            .unwrap()
        {
            if mount
                .get("mountPropagation")
                .is_some_and(|it| it == "Bidirectional")
            {
                let path = mount.get("mountPath").and_then(Value::as_str).unwrap();
                found.insert((name.to_owned(), path.to_owned()));
            }
        }
    }
    found
}

/// One test, for the command has one directory.
#[test]
fn privileged_what_a_newcomer_types_works_and_down_leaves_nothing() {
    let newcomer = Newcomer::begin();
    assert_eq!(newcomer.cluster(&["down"]), "no cluster is up\n");
    let next = to_type(&newcomer.cluster(&["up"]));
    let next: Vec<_> = next.iter().map(String::as_str).collect();
    let [export, apply, look, show, logs, _down] = next[..] else {
        panic!("{next:?}");
    };
    drivers_run_as_pods(&newcomer);

    typed(export, apply);
    newcomer.kubectl(&["wait", "--for=condition=Ready", "pod/example", PATIENCE]);
    assert!(typed(export, look).contains("local-images"));
    let mut written = String::new();
    wait_until("the pod writes", || {
        written = typed(export, show);
        !written.is_empty()
    });
    assert!(typed(export, logs).contains("the backend serves"));
    let volumes = newcomer.volumes();
    assert_eq!(volumes.len(), 1, "{volumes:?}");

    newcomer.kubectl(&["delete", "pod", "example"]);
    newcomer.apply(&[pod("reader", "example", "cat /data/log")]);
    assert!(newcomer.said_by("reader").starts_with(&written));
    a_snapshot_is_restored(&newcomer);
    newcomer.kubectl(&["delete", "pods,volumesnapshots,pvc", "--all"]);
    wait_until("the volumes are gone", || {
        newcomer
            .kubectl(&["get", "pv", "--output", "name"])
            .is_empty()
            && newcomer.volumes().is_empty()
    });
    assert_eq!(attached(&volumes), [""; 0]);

    assert!(
        newcomer
            .cluster(&["up"])
            .starts_with("the cluster is up already\n")
    );
    crashes(&newcomer, export, apply);
    is_interrupted(&newcomer);
}

fn drivers_run_as_pods(newcomer: &Newcomer) {
    let node = newcomer.json(&["get", "csinode", "node-1"]);
    let drivers = node.pointer("/spec/drivers").and_then(Value::as_array);
    let names = drivers
        .unwrap()
        .iter()
        .filter_map(|it| it.get("name")?.as_str());
    assert_eq!(
        names.collect::<BTreeSet<_>>(),
        BTreeSet::from(["hostpath.wasmount.io", "local-images.wasmount.io"])
    );
    let sets = newcomer.json(&["get", "daemonsets", "--namespace", "wasmount-system"]);
    let expected =
        ["privileged", "/var/lib/kubelet"].map(|it| ("mounter".to_owned(), it.to_owned()));
    assert_eq!(privileges(&sets), BTreeSet::from(expected));
    // Sidecars start beside a host that still compiles its plugin, and wait for it.
    let pods = newcomer.json(&["get", "pods", "--namespace", "wasmount-system"]);
    let pods = pods.pointer("/items").and_then(Value::as_array).unwrap();
    assert_eq!(pods.len(), 2);
    let containers = pods.iter().flat_map(|it| {
        it.pointer("/status/containerStatuses")
            .and_then(Value::as_array)
            .unwrap()
    });
    for container in containers {
        assert_eq!(
            container.get("restartCount"),
            Some(&json!(0)),
            "{container}"
        );
    }
}

/// Through the sidecars as pods.
fn a_snapshot_is_restored(newcomer: &Newcomer) {
    newcomer.apply(&[
        claim("source", "hostpath", None),
        pod("writer", "source", "echo kept > /data/word"),
    ]);
    newcomer.said_by("writer");
    let snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "moment"},
        "spec": {
            "volumeSnapshotClassName": "hostpath",
            "source": {"persistentVolumeClaimName": "source"},
        },
    });
    newcomer.apply(&[
        snapshot,
        claim("restored", "hostpath", Some("moment")),
        pod("restorer", "restored", "cat /data/word"),
    ]);
    assert_eq!(newcomer.said_by("restorer"), "kept\n");
}

/// Its first processes are killed while a volume is in use.
fn crashes(newcomer: &Newcomer, export: &str, apply: &str) {
    typed(export, apply);
    newcomer.kubectl(&["wait", "--for=condition=Ready", "pod/example", PATIENCE]);
    let volumes = newcomer.volumes();
    assert_eq!(attached(&volumes).len(), 1, "{volumes:?}");
    for id in processes_of(&newcomer.root()) {
        // One that ended with another is gone already.
        let _ = command::try_read(Command::new("kill").args(["-9", &id.to_string()]));
    }
    assert_eq!(newcomer.cluster(&["down"]), "the cluster is gone\n");
    newcomer.assert_nothing_is_left(&volumes);
}

/// As Ctrl-C does, which a background job ignores, as soon as there is a node.
fn is_interrupted(newcomer: &Newcomer) {
    let mut up = newcomer.xtask(&["up"]).spawn().unwrap();
    let lab = Lab::at(&newcomer.root()).unwrap();
    wait_until("it begins", || lab.log("kubelet").exists());
    command::read(Command::new("kill").args(["-TERM", &up.id().to_string()])).unwrap();
    assert!(!up.wait().unwrap().success());
    newcomer.cluster(&["down"]);
    newcomer.assert_nothing_is_left(&[]);
}

#[test]
fn a_wrong_word_is_refused_with_the_right_one() {
    let workspace = Workspace::locate().unwrap();
    let said = |arguments: &[&str]| -> Output {
        let mut command = Command::new(workspace.own_program());
        command::try_read(command.arg("cluster").args(arguments)).unwrap()
    };
    let wrong = said(&["upp"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("'up'"));
}
