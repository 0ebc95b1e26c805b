//! The pods of a backend whose disks the mounter attaches, compared with those of other backends.

use super::*;

/// The pod of a node.
fn pod(attaches_disks: bool) -> Value {
    let backend = Backend {
        attaches_disks,
        mounts_from_network: attaches_disks,
        uses_devices: attaches_disks,
        ..backend(&[Service::Controller, Service::NodeStage], &[])
    };
    let objects = all(&backend, Form::Network);
    of_kind(&objects, "DaemonSet")[0]["spec"]["template"]["spec"].clone()
}

/// Whether the mounter of a pod sees the node's root, and is told so.
fn sees_node(pod: &Value) -> (bool, bool) {
    let containers = pod["containers"].as_array().unwrap();
    let is_mounter = |it: &&Value| it["name"] == "mounter";
    let mounter = containers.iter().find(is_mounter).unwrap();
    let mount = json!({
        "name": "node",
        "mountPath": "/node",
        "readOnly": true,
        "mountPropagation": "HostToContainer",
    });
    let has = |list: &Value, item: &Value| list.as_array().unwrap().contains(item);
    let volume = json!({ "name": "node", "hostPath": { "path": "/", "type": "Directory" } });
    (
        has(&mounter["volumeMounts"], &mount) && has(&pod["volumes"], &volume),
        has(&mounter["args"], &json!("--node-root=/node")),
    )
}

#[test]
fn a_mounter_that_attaches_disks_runs_programs_of_its_node() {
    let pod = pod(true);
    assert_eq!(sees_node(&pod), (true, true));
    assert_eq!(pod["hostNetwork"], true);
    // The container that runs plugins sees nothing of it.
    let containers = pod["containers"].as_array().unwrap();
    let others = containers.iter().filter(|it| it["name"] != "mounter");
    assert!(
        !others
            .into_iter()
            .any(|it| it.to_string().contains("/node\""))
    );
}

#[test]
fn other_mounters_see_nothing_of_their_node() {
    let pod = pod(false);
    assert_eq!(sees_node(&pod), (false, false));
    assert_eq!(pod["hostNetwork"], Value::Null);
}
