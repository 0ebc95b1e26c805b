//! A node set as a release: the DaemonSet of several backends is one, and each of the backends another.

use super::{as_value, objects, rejected, rendered};
use crate::manifests::node_set::{IN_NODE_SET, hostpath_in};
use crate::manifests::scene::{printed, printed_of};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use xtask::helm::Chart;

/// What is printed of two backends, and of their node set.
fn files(directory: &TempDir) -> [PathBuf; 3] {
    let documents = ["a", "b"].map(|name| hostpath_in(directory.path(), name));
    let files = ["a", "b", "node-set"].map(|name| directory.path().join(format!("{name}.printed")));
    for (document, file) in documents.iter().zip(&files) {
        fs::write(file, printed(document, &IN_NODE_SET).0).unwrap();
    }
    let paths = documents.each_ref().map(PathBuf::as_path);
    fs::write(&files[2], printed_of(&paths, &["--node-set"]).0).unwrap();
    files
}

#[test]
fn the_chart_renders_a_node_set_and_its_backends() {
    let directory = tempfile::tempdir().unwrap();
    for file in files(&directory) {
        let text = fs::read_to_string(&file).unwrap();
        let mut expected = objects(&text);
        let followed = expected
            .values_mut()
            .filter(|it| it["kind"] == "StorageBackend");
        for object in followed {
            object["metadata"]["annotations"] =
                serde_json::json!({ "helm.sh/resource-policy": "keep" });
        }
        let arguments = ["--set-file", &as_value(&file)];
        assert_eq!(objects(&rendered(Chart::Backend, &arguments)), expected);
    }
}

#[test]
fn values_change_the_pods_of_a_node_set() {
    let directory = tempfile::tempdir().unwrap();
    let [.., node_set] = files(&directory);
    let node_set = as_value(&node_set);
    let arguments = [
        "--set-file",
        &node_set,
        "--set=node.healthPort=9900,image.tag=v2,prometheus.podMonitor.create=true,prometheus.rules.create=true",
    ];
    let all = objects(&rendered(Chart::Backend, &arguments));
    let pod = &all["DaemonSet wasmount-node"]["spec"]["template"];
    let host = &pod["spec"]["containers"][0];
    assert_eq!(host["image"], "wasmount:v2");
    assert_eq!(host["ports"][0]["containerPort"], 9900);
    let monitor = &all["PodMonitor wasmount-node-set"]["spec"]["selector"]["matchLabels"];
    for (label, value) in monitor.as_object().unwrap() {
        assert_eq!(&pod["metadata"]["labels"][label], value, "{label}");
    }
    // Those are of a driver.
    assert!(!all.keys().any(|it| it.starts_with("PrometheusRule")));
}

#[test]
fn values_of_one_backend_are_rejected_for_a_node_set() {
    let directory = tempfile::tempdir().unwrap();
    let [a, _, node_set] = files(&directory);
    let said = rejected(&[
        "--set-file",
        &as_value(&node_set),
        "--set=spec.limits.time=30s",
    ]);
    assert!(said.contains("print the node set again"), "{said}");
    let both = directory.path().join("both");
    let texts = [&a, &node_set].map(|it| fs::read_to_string(it).unwrap());
    fs::write(&both, texts.concat()).unwrap();
    let said = rejected(&["--set-file", &as_value(&both)]);
    assert!(said.contains("each is a release of its own"), "{said}");
}
