//! `cargo xtask cluster up` as a newcomer meets it: drivers as pods, by the manifests that are printed; what it says to type next, typed word by
//! word; and `down`, also after a crash.

#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

mod backends;
mod canary;
mod newcomer;
mod node_set;
mod one_node;
mod releases;

use newcomer::{Newcomer, PATIENCE, attached, claim, pod, processes_of, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Command, Output};
use xtask::cluster::lab::Lab;
use xtask::command;
use xtask::process::Process;
use xtask::workspace::Workspace;

/// The last words of a sidecar whose connection ended.
const NOT_GREETED: &str = "Lost connection to CSI driver, exiting";

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
fn privileged_newcomer_commands_work_and_down_removes_all() {
    let newcomer = Newcomer::begin();
    assert_eq!(newcomer.cluster(&["down"]), "no cluster is up\n");
    let next = to_type(&newcomer.cluster(&["up"]));
    let held = newcomer.hold();
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
    backends::a_snapshot_that_is_there_already_is_found_by_its_node(&newcomer);
    backends::a_claim_that_waits_for_no_pod_is_bound(&newcomer);
    newcomer.without_volumes();
    assert_eq!(attached(&volumes), [""; 0]);
    backends::one_is_deleted_while_another_serves(&newcomer);
    releases::releases_serve_and_leave_what_is_shared(&newcomer);
    canary::a_change_that_fails_comes_back_and_is_told(&newcomer, &held);
    releases::uninstall(&newcomer, "hostpath");
    node_set::one_is_deleted_while_the_other_serves(&newcomer, &held);

    assert!(
        newcomer
            .cluster(&["up"])
            .starts_with("the cluster is up already\n")
    );
    crashes(&newcomer, export, apply);
    drop(held);
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
        // A sidecar gives its host one second to greet it, and ends if a busy machine takes longer (csi-lib-utils, `connection.connect`: no
        // `MinConnectTimeout`). It must not happen to its successor.
        let last = container.pointer("/lastState/terminated/message");
        let restarts = u64::from(last == Some(&json!(NOT_GREETED)));
        assert_eq!(
            container.get("restartCount"),
            Some(&json!(restarts)),
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
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("up.log");
    // Killed when this ends, so that it starts nothing after the cluster was ended.
    let mut up = Process::start(newcomer.xtask(&["up"]), &log).unwrap();
    let lab = Lab::at(&newcomer.root()).unwrap();
    wait_until("it begins", || lab.log("kubelet").exists());
    assert!(!up.terminate().unwrap().success());
    newcomer.cluster(&["down"]);
    newcomer.assert_nothing_is_left(&[]);
}

#[test]
fn a_wrong_argument_is_rejected_with_the_right_one() {
    let workspace = Workspace::locate().unwrap();
    let said = |arguments: &[&str]| -> Output {
        let mut command = Command::new(workspace.own_program());
        command::try_read(command.arg("cluster").args(arguments)).unwrap()
    };
    let wrong = said(&["upp"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("'up'"));
}
