//! What values of the chart change, and what they leave.

use super::{Chart, as_value, network, objects, rejected, rendered};
use serde_json::{Value, json};
use std::fs;

/// What values change in an object: paths with their new values.
type Changes = Vec<(&'static str, Value)>;

/// Values, and where what they say stands in which object.
fn tuned() -> (Value, Vec<(&'static str, Changes)>) {
    let spread =
        json!([{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" }]);
    let tolerations = json!([{ "key": "storage", "operator": "Exists" }]);
    let values = json!({
        "image": { "repository": "registry.example:5000/wasmount", "tag": "7", "pullPolicy": "Always" },
        "imagePullSecrets": [{ "name": "pull" }],
        "sidecars": { "registry": "mirror.example/csi/", "tags": { "csi-provisioner": "v9" }, "pullPolicy": "Never" },
        "resources": { "wasmount": { "requests": { "cpu": "1" } }, "csi-resizer": { "limits": { "memory": "1Gi" } } },
        "seLinuxOptions": { "type": "spc_t" },
        "env": [{ "name": "WASMOUNT_LOG", "value": "debug" }],
        "node": {
            "tolerations": tolerations, "nodeSelector": { "disk": "ssd" }, "healthPort": 9900,
            "updateStrategy": { "type": "OnDelete" }, "podLabels": { "team": "a" },
        },
        "controller": { "replicas": 3, "topologySpreadConstraints": spread, "priorityClassName": "own", "podAnnotations": { "a": "b" } },
        "storageClass": { "parameters": { "kind": "image" }, "mountOptions": ["noatime"], "reclaimPolicy": "Retain" },
        "spec": { "settings": { "maxVolumesPerNode": "100" }, "limits": { "longIds": false } },
    });
    let image = json!("registry.example:5000/wasmount:7");
    let node = vec![
        (
            "/spec/template/spec/containers/1/securityContext",
            json!({ "privileged": true, "readOnlyRootFilesystem": true, "runAsUser": 0 }),
        ),
        ("/spec/template/spec/tolerations", tolerations),
        ("/spec/template/spec/nodeSelector/disk", json!("ssd")),
        (
            "/spec/template/spec/nodeSelector/kubernetes.io~1os",
            json!("linux"),
        ),
        ("/spec/template/spec/containers/0/image", image.clone()),
        ("/spec/template/spec/containers/1/image", image.clone()),
        (
            "/spec/template/spec/containers/1/imagePullPolicy",
            json!("Always"),
        ),
        (
            "/spec/template/spec/containers/0/ports/0/containerPort",
            json!(9900),
        ),
        ("/spec/template/spec/imagePullSecrets/0/name", json!("pull")),
        ("/spec/template/metadata/labels/team", json!("a")),
        ("/spec/updateStrategy", json!({ "type": "OnDelete" })),
    ];
    let controller = vec![
        (
            "/spec/template/spec/containers/0/securityContext/seLinuxOptions",
            json!({ "type": "spc_t" }),
        ),
        ("/spec/replicas", json!(3)),
        ("/spec/template/spec/topologySpreadConstraints", spread),
        ("/spec/template/spec/priorityClassName", json!("own")),
        ("/spec/template/metadata/annotations", json!({ "a": "b" })),
        ("/spec/template/spec/containers/0/image", image),
        (
            "/spec/template/spec/containers/0/resources",
            json!({ "requests": { "cpu": "1" } }),
        ),
        (
            "/spec/template/spec/containers/1/image",
            json!("mirror.example/csi/csi-provisioner:v9"),
        ),
        (
            "/spec/template/spec/containers/1/imagePullPolicy",
            json!("Never"),
        ),
    ];
    let class = vec![
        ("/parameters/kind", json!("image")),
        ("/parameters/csi.storage.k8s.io~1fstype", json!("ext4")),
        ("/mountOptions", json!(["noatime"])),
        ("/reclaimPolicy", json!("Retain")),
    ];
    let changed = vec![
        ("DaemonSet wasmount-hostpath-node", node),
        ("Deployment wasmount-hostpath-controller", controller),
        ("StorageClass hostpath", class),
        ("ConfigMap wasmount-hostpath-backend", Vec::new()),
    ];
    (values, changed)
}

#[test]
fn values_change_the_objects_that_they_name_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let file = network(&directory, &[]);
    let (values, changed) = tuned();
    let values_file = directory.path().join("values.json");
    fs::write(&values_file, values.to_string()).unwrap();
    let arguments = [
        "--set-file",
        &as_value(&file),
        "--values",
        values_file.to_str().unwrap(),
    ];
    let after = objects(&rendered(Chart::Backend, &arguments));
    let before = objects(&fs::read_to_string(&file).unwrap());
    let is_changed = |name: &String| changed.iter().any(|(it, _)| it == name);
    for (name, object) in &before {
        assert_eq!(*object != after[name], is_changed(name), "{name}");
    }
    assert_eq!(before.len(), after.len());
    for (name, changes) in &changed {
        for (path, value) in changes {
            assert_eq!(after[*name].pointer(path), Some(value), "{name} {path}");
        }
    }
    let arguments = after["DaemonSet wasmount-hostpath-node"].to_string();
    assert!(arguments.contains(r#""--listen-health=0.0.0.0:9900""#));
    let map = &after["ConfigMap wasmount-hostpath-backend"]["data"]["backend.yaml"];
    let document: Value = serde_saphyr::from_str(map.as_str().unwrap()).unwrap();
    assert_eq!(
        document["spec"]["settings"],
        json!({ "maxVolumesPerNode": "100" })
    );
    assert_eq!(document["spec"]["limits"], json!({ "longIds": false }));
}

/// A canary by Helm: another reference, with the steps and the rules by which it reaches the hosts.
#[test]
fn values_change_the_version_of_a_followed_backend() {
    let directory = tempfile::tempdir().unwrap();
    let file = network(&directory, &["--storage-backends"]);
    let change = json!({ "spec": {
        "plugin": { "reference": "oci://registry.example/nas:2" },
        "versions": { "rollback": { "faults": 3 } },
        "rollout": { "steps": [{ "percent": 10, "pause": "1h" }] },
    }});
    let values = directory.path().join("values.json");
    fs::write(&values, change.to_string()).unwrap();
    let manifests = as_value(&file);
    let arguments = [
        "--set-file",
        &manifests,
        "--values",
        values.to_str().unwrap(),
    ];
    let said = rejected(&arguments);
    assert!(
        said.contains("spec.plugin: the printed document names no registry"),
        "{said}"
    );

    let mut printed = objects(&fs::read_to_string(&file).unwrap());
    let backend = printed.get_mut("StorageBackend hostpath").unwrap();
    backend["spec"]["plugin"] = json!({ "reference": "oci://registry.example/nas:1" });
    let document = json!({ "spec": backend["spec"] }).to_string();
    let map = printed
        .get_mut("ConfigMap wasmount-hostpath-backend")
        .unwrap();
    map["data"]["backend.yaml"] = json!(document);
    let texts: Vec<_> = printed.values().map(Value::to_string).collect();
    fs::write(&file, texts.join("\n---\n")).unwrap();
    let after = objects(&rendered(Chart::Backend, &arguments));
    let spec = &after["StorageBackend hostpath"]["spec"];
    for (part, value) in change["spec"].as_object().unwrap() {
        assert_eq!(spec[part], *value, "{part}");
    }
    // A document that hosts read as a file has no steps.
    let of_file = network(&directory, &[]);
    let steps = "--set=spec.rollout.steps[0].percent=10";
    let said = rejected(&["--set-file", &as_value(&of_file), steps]);
    assert!(
        said.contains("print the manifests with --storage-backends"),
        "{said}"
    );
}

#[test]
fn a_share_of_another_server_is_set_by_values() {
    let source = |host: &str| {
        format!(
            "--set=spec.settings.share\\.nas={host}:/export,spec.grants.pools.nas.mount.type=nfs4,\
             spec.grants.pools.nas.mount.source={host}:/export,spec.grants.filesystems[0].type=nfs4,\
             spec.grants.filesystems[0].sources[0]={host}:/export/*"
        )
    };
    let all = rendered(
        Chart::Backend,
        &[
            "--set=backend=nfs,node.healthAddress=0.0.0.0",
            &source("10.1.2.3"),
        ],
    );
    let all = objects(&all);
    let map = &all["ConfigMap wasmount-nfs-backend"]["data"]["backend.yaml"];
    let text = map.as_str().unwrap();
    assert!(!text.contains("nas.example.com"), "{text}");
    let document: Value = serde_saphyr::from_str(text).unwrap();
    assert!(
        all["DaemonSet wasmount-nfs-node"]
            .to_string()
            .contains("--listen-health=0.0.0.0:9809")
    );
    let pool =
        json!({ "fullCopies": true, "mount": { "type": "nfs4", "source": "10.1.2.3:/export" } });
    assert_eq!(document["spec"]["grants"]["pools"]["nas"], pool);
}

#[test]
fn a_pod_monitor_of_unreachable_pods_is_rejected() {
    let values = "--set=backend=nfs,prometheus.podMonitor.create=true";
    let said = rejected(&[values]);
    let reason = "wasmount-nfs-node is on the network of its nodes, where Prometheus does not reach 127.0.0.1: set node.healthAddress";
    assert!(said.contains(reason), "{said}");
    let both = "--set=node.healthAddress=0.0.0.0,controller.healthAddress=0.0.0.0";
    let all = objects(&rendered(Chart::Backend, &[values, both]));
    assert!(all.contains_key("PodMonitor wasmount-nfs"));
}

#[test]
fn sidecars_on_the_node_network_show_metrics_by_value() {
    let backend = "--set=backend=nfs";
    let ports = |values: &[&str], address: &str| {
        let all = objects(&rendered(Chart::Backend, &[&[backend], values].concat()));
        let pod = &all["Deployment wasmount-nfs-controller"]["spec"]["template"]["spec"];
        let mut ports = Vec::new();
        for container in pod["containers"].as_array().unwrap() {
            let name = container["name"].as_str().unwrap();
            let arguments = container["args"].to_string();
            match container["ports"].as_array().map(Vec::as_slice) {
                Some([port]) if name.starts_with("csi-") => {
                    assert_eq!(port["name"], name);
                    let number = port["containerPort"].as_u64().unwrap();
                    let endpoint = format!("\"--http-endpoint={address}:{number}\"");
                    assert!(arguments.contains(&endpoint), "{arguments}");
                    ports.push((name.to_owned(), number));
                }
                _ => assert!(!arguments.contains("--http-endpoint"), "{arguments}"),
            }
        }
        ports
    };
    let from = |first: u64| {
        let sidecars = [
            ("csi-provisioner", 0),
            ("csi-resizer", 2),
            ("csi-snapshotter", 3),
        ];
        sidecars
            .map(|(name, distance)| (name.to_owned(), first + distance))
            .to_vec()
    };
    assert_eq!(ports(&[], ""), []);
    let shown = "--set=controller.healthAddress=0.0.0.0";
    assert_eq!(ports(&[shown], "0.0.0.0"), from(9910));
    let moved = "--set=controller.healthAddress=[::],controller.healthPort=9820";
    assert_eq!(ports(&[moved], "[::]"), from(9920));
}

#[test]
fn objects_of_the_prometheus_operator_are_for_its_own_driver() {
    let values = "--set=backend=hostpath,prometheus.podMonitor.create=true,prometheus.rules.create=true,\
        prometheus.podMonitor.labels.release=prometheus";
    let before = objects(&rendered(Chart::Backend, &["--set=backend=hostpath"]));
    let after = objects(&rendered(Chart::Backend, &[values]));
    assert_eq!(after.len(), before.len() + 2);
    let monitor = &after["PodMonitor wasmount-hostpath"];
    let set = &after["DaemonSet wasmount-hostpath-node"]["spec"]["template"];
    let selected = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    for (key, value) in selected {
        assert_eq!(set["metadata"]["labels"][key], *value);
    }
    assert_eq!(
        set["spec"]["containers"][0]["ports"][0]["name"],
        monitor["spec"]["podMetricsEndpoints"][0]["port"]
    );
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let rules = &after["PrometheusRule wasmount-hostpath"]["spec"]["groups"][0]["rules"];
    for rule in rules.as_array().unwrap() {
        let expression = rule["expr"].as_str().unwrap();
        let own = expression
            .matches(r#"{driver="hostpath.wasmount.io""#)
            .count();
        let all = expression.matches('{').count();
        assert!(all > 0 && own == all, "{expression}");
        assert!(
            rule["annotations"]["summary"]
                .to_string()
                .contains("{{ $labels.driver }}")
        );
    }
}
