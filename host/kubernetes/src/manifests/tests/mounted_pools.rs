//! The controller of a backend whose pools the host mounts, compared with that of other pools.

use super::*;

/// The Deployment of a backend with a pool that the host mounts, or one in a directory.
fn deployment(mounts_pools: bool) -> Value {
    let mut backend = backend(&[Service::Controller, Service::NodeStage], &[]);
    backend.mounts_pools = mounts_pools;
    backend.mounts_from_network = mounts_pools;
    let directories = [("kept".to_owned(), PathBuf::from("/srv/pool"))];
    backend.pools = directories.into();
    printed(&backend)
}

fn printed(backend: &Backend) -> Value {
    let objects = all(backend, Form::Network);
    of_kind(&objects, "Deployment")[0].clone()
}

fn container<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let mut containers = pod["containers"].as_array().unwrap().iter();
    containers.find(|container| container["name"] == name)
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn a_controller_mounts_pools_by_a_mounter_of_its_own() {
    let deployment = deployment(true);
    let pod = &deployment["spec"]["template"]["spec"];
    let (host, mounter) = (
        container(pod, "wasmount").unwrap(),
        container(pod, "mounter").unwrap(),
    );
    assert_eq!(
        mounter["args"],
        json!([
            "mounter",
            "--backend=/etc/wasmount/backend.yaml",
            "--data-dir=/var/lib/wasmount",
            "--run-dir=/run/wasmount",
            "--pools-only",
            "--socket=/run/wasmount-mounter/mounter.sock",
        ])
    );
    assert_eq!(
        mounter["securityContext"],
        json!({
            "runAsUser": 0,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "seccompProfile": { "type": "RuntimeDefault" },
            "appArmorProfile": { "type": "Unconfined" },
            "seLinuxOptions": { "type": "spc_t" },
            "capabilities": {
                "drop": ["ALL"],
                "add": ["SYS_ADMIN", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"],
            },
        })
    );
    assert_eq!(
        names(&mounter["volumeMounts"]),
        ["mounts", "run", "mounter", "config", "pool-kept"]
    );
    assert_eq!(
        host["securityContext"]["capabilities"],
        json!({ "drop": ["ALL"] })
    );
    let arguments = host["args"].to_string();
    assert!(
        arguments.contains("--mounter=unix:/run/wasmount-mounter/mounter.sock")
            && !arguments.contains("--run-dir"),
        "{arguments}"
    );
}

#[test]
fn a_mounter_without_directories_has_two_capabilities() {
    let mut backend = backend(&[Service::Controller, Service::NodeStage], &[]);
    backend.mounts_pools = true;
    backend.mounts_from_network = true;
    let pod = &printed(&backend)["spec"]["template"]["spec"];
    assert_eq!(
        container(pod, "mounter").unwrap()["securityContext"]["capabilities"],
        json!({ "drop": ["ALL"], "add": ["SYS_ADMIN", "FOWNER"] })
    );
}

#[test]
fn a_controller_that_mounts_is_on_the_network_of_its_node() {
    let deployment = deployment(true);
    assert_eq!(
        deployment["spec"]["strategy"],
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } })
    );
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    let host = container(pod, "wasmount").unwrap();
    // The port before it is that of the node's pod.
    assert_eq!(
        host["ports"],
        json!([{ "name": "health", "containerPort": 9810 }])
    );
    let arguments = host["args"].to_string();
    assert!(
        arguments.contains("--listen-health=127.0.0.1:9810"),
        "{arguments}"
    );
}

#[test]
fn a_controller_with_directories_alone_has_no_mounter() {
    let deployment = deployment(false);
    assert_eq!(deployment["spec"]["strategy"], Value::Null);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], Value::Null);
    assert_eq!(container(pod, "mounter"), None);
    let host = container(pod, "wasmount").unwrap();
    assert_eq!(
        host["securityContext"]["capabilities"],
        json!({ "drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"] })
    );
    assert_eq!(
        host["ports"],
        json!([{ "name": "health", "containerPort": 9809 }])
    );
    assert!(host["args"].to_string().contains("--run-dir="));
}
