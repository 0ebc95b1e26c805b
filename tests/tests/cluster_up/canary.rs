//! A change that fails on its first host: it comes back by itself under pods, and the alert that it raises leads to a page that says what to do. A step
//! of the one test of this program, once the release `hostpath` follows an object.

use crate::newcomer::{Newcomer, PATIENCE, claim, pod, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use wasmount_tests::builds;
use wasmount_tests::prometheus::{Alert, Watch};
use xtask::cluster::Cluster;
use xtask::cluster::access::NODE_NAME;

const DRIVER: &str = "hostpath.wasmount.io";

/// The function that traps in the candidate.
const TRAPPING: &str = "wasmount:csi/controller@0.1.0#create-volume";

/// The candidate, in the host's data directory: in its pod, and on the machine below `/var/lib` of the node.
const IN_POD: &str = "/var/lib/wasmount/candidate.wasm";
const ON_NODE: &str = "lib/wasmount/hostpath/store/candidate.wasm";

/// Claims that ask for a volume while the candidate serves: with their first repetitions more calls than it takes to roll it back.
const CLAIMS: usize = 4;

/// What a rollback by faults raises.
const ALERT: &str = "WasmountPluginRolledBack";

pub(crate) fn a_change_that_fails_comes_back_and_is_told(newcomer: &Newcomer, cluster: &Cluster) {
    let stay = "echo kept > /data/word; exec sleep infinity";
    newcomer.apply(&[
        claim("used", "hostpath", None),
        pod("user", "used", stay),
        claim("before", "hostpath", None),
        pod("before", "before", "echo before > /data/word"),
    ]);
    newcomer.kubectl(&["wait", "--for=condition=Ready", "pod/user", PATIENCE]);
    newcomer.said_by("before");
    let rules = newcomer
        .workspace()
        .root()
        .join("deploy/monitoring/alerts.yaml");
    let mut prometheus = Watch::start(cluster, &rules, &metrics(newcomer)).unwrap();
    assert_eq!(prometheus.firing().unwrap(), []);

    let promoted = rollout_to(
        newcomer,
        json!({ "steps": [{ "percent": 1, "pause": "24h" }] }),
    );
    let good = promoted.pointer("/spec/plugin/path").unwrap().clone();
    let candidate = builds::build_that_traps("hostpath", TRAPPING).unwrap();
    builds::put(&candidate, &newcomer.root().join(ON_NODE)).unwrap();
    change(newcomer, &json!({ "plugin": { "path": IN_POD } }));
    object_that(newcomer, "serves the candidate", |it| {
        is(it, "/status/rollout/progress", "1/1")
            && it.pointer("/status/rollout/servedSince").is_some()
    });

    // What is asked of it meanwhile is done: by the candidate what it can do, and the rest by the version that is back.
    newcomer.kubectl(&["delete", "pod/before", "pvc/before"]);
    let names: Vec<_> = (0..CLAIMS).map(|number| format!("new-{number}")).collect();
    let asked = names.iter().flat_map(|name| {
        let write = format!("echo {name} > /data/word; cat /data/word");
        [claim(name, "hostpath", None), pod(name, name, &write)]
    });
    newcomer.apply(&asked.collect::<Vec<_>>());
    let failed = object_that(newcomer, "is back", |it| {
        is(it, "/status/rollout/phase", "Failed") && is(it, "/status/phases/Serving", 1)
    });
    let why = failed.pointer("/status/rollout/message").unwrap();
    let why = why.as_str().unwrap();
    assert!(why.starts_with(&format!("{NODE_NAME}: ")), "{why}");
    assert!(why.contains("trapped"), "{why}");
    for name in &names {
        assert_eq!(newcomer.said_by(name), format!("{name}\n"));
    }
    let kept = newcomer.kubectl(&["exec", "user", "--", "cat", "/data/word"]);
    assert_eq!(kept, "kept\n");
    let shown = newcomer.kubectl(&["get", "sb", "hostpath"]);
    assert!(shown.contains(" 1/1 Failed "), "{shown}");

    let alert = fires(&mut prometheus);
    assert_eq!(alert.labels.get("driver").unwrap(), DRIVER);
    has_a_runbook(newcomer.workspace().root(), &alert);
    // As it says: the document is corrected.
    change(newcomer, &json!({ "plugin": { "path": good } }));
    object_that(newcomer, "is promoted again", |it| {
        is(it, "/status/rollout/phase", "Promoted") && is(it, "/status/hosts/current", 1)
    });
    newcomer.without_volumes();
}

/// Where Prometheus finds the host of the backend: by its pod.
fn metrics(newcomer: &Newcomer) -> String {
    let address = newcomer.kubectl(&[
        "get",
        "pods",
        "--namespace=wasmount-system",
        "--selector=app.kubernetes.io/instance=hostpath",
        "--output=jsonpath={.items[0].status.podIP}:{.items[0].spec.containers[0].ports[0].containerPort}",
    ]);
    format!("http://{address}/metrics")
}

/// Gives the object steps, and returns it once what it serves is what a failure returns to.
fn rollout_to(newcomer: &Newcomer, rollout: Value) -> Value {
    change(newcomer, &json!({ "rollout": rollout }));
    object_that(newcomer, "has steps", |it| {
        is(it, "/status/rollout/phase", "Promoted")
    })
}

/// Changes this of the object's specification.
fn change(newcomer: &Newcomer, spec: &Value) {
    let patch = json!({ "spec": spec }).to_string();
    let backend = "storagebackend/hostpath";
    newcomer.kubectl(&["patch", backend, "--type=merge", "--patch", &patch]);
}

/// The object, once its status tells this of its present specification.
fn object_that(newcomer: &Newcomer, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut object = Value::Null;
    wait_until(&format!("the backend {what}"), || {
        object = newcomer.json(&["get", "storagebackend/hostpath"]);
        let observed = object.pointer("/status/observedGeneration");
        observed == object.pointer("/metadata/generation") && wanted(&object)
    });
    object
}

fn is(object: &Value, pointer: &str, wanted: impl Into<Value>) -> bool {
    object.pointer(pointer) == Some(&wanted.into())
}

/// The alert, once it fires.
fn fires(prometheus: &mut Watch) -> Alert {
    loop {
        let alerts = prometheus.firing().unwrap();
        let mut alerts = alerts.into_iter();
        if let Some(found) = alerts.find(|it| it.labels.get("alertname").unwrap() == ALERT) {
            return found;
        }
    }
}

/// The alert names a page of the documentation, and a section that is there.
fn has_a_runbook(root: &Path, alert: &Alert) {
    let url = alert.annotations.get("runbook_url").unwrap();
    let (page, section) = url.split_once('#').unwrap();
    let (_, page) = page.split_once("/blob/main/").unwrap();
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut titles = text.lines().filter_map(|it| it.strip_prefix("## "));
    assert!(titles.any(|it| it.to_lowercase() == section), "{url}");
}
