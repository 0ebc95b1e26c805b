//! The cluster that other tests stand on: what they take for granted of it is shown here, once.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};
use wasmount_tests::root::needs_root;
use xtask::cluster::{BUSYBOX_IMAGE, Cluster};
use xtask::command;
use xtask::workspace::Workspace;

/// Until a pod has done what it does: seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// By the address that every pod is given.
const SEE_THE_API_SERVER: &str =
    "busybox nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT < /dev/null";

async fn phase_reached(pods: &Api<Pod>, name: &str, wanted: &str) {
    let start = Instant::now();
    loop {
        let pod = pods.get(name).await.unwrap();
        let phase = pod.status.as_ref().and_then(|it| it.phase.clone());
        if phase.as_deref() == Some(wanted) {
            return;
        }
        let may_come = phase.as_deref() != Some("Failed") && start.elapsed() < PATIENCE;
        assert!(may_come, "not {wanted}: {:?}", pod.status);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Says how the API server looks from inside, by the name that every pod knows it by.
fn pod(name: &str, host_network: bool) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": host_network,
            "restartPolicy": "Never",
            "containers": [{
                "name": "main",
                "image": BUSYBOX_IMAGE,
                "command": ["/bin/sh", "-c", SEE_THE_API_SERVER],
            }],
        },
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_cluster_runs_pods_and_leaves_nothing() {
    needs_root();
    let workspace = Workspace::locate().unwrap();
    let cluster = Cluster::start(&workspace).await.unwrap();
    let root = cluster.lab().root().to_owned();
    let pods = Api::<Pod>::default_namespaced(cluster.client().await.unwrap());
    for (name, host_network) in [("on-the-node", true), ("on-its-own", false)] {
        let pod = pod(name, host_network);
        pods.create(&Default::default(), &pod).await.unwrap();
    }
    for name in ["on-the-node", "on-its-own"] {
        phase_reached(&pods, name, "Succeeded").await;
    }
    let parts = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "containerd",
        "kubelet",
        "snapshot-controller",
    ];
    for part in parts {
        cluster.kill(part).unwrap();
        assert_eq!(cluster.id(part).unwrap(), None, "{part}");
        cluster.start_again(part).unwrap();
    }
    cluster.api_ready().await.unwrap();
    pods.create(&Default::default(), &pod("later", false))
        .await
        .unwrap();
    phase_reached(&pods, "later", "Succeeded").await;
    // A loop device over a file of the cluster belongs to it.
    let attach = "truncate -s 1M disk; losetup --find --show disk";
    let device = command::read(cluster.enter("sh").args(["-c", attach])).unwrap();
    let group = cluster.lab().control_group();
    cluster.end().unwrap();
    assert!(!root.exists());
    let attached = command::read(Command::new("losetup").arg("--list")).unwrap();
    assert!(!attached.lines().any(|it| it.starts_with(device.trim_end())));
    let find = ["/sys/fs/cgroup", "-maxdepth", "2", "-name", &group];
    assert_eq!(command::read(Command::new("find").args(find)).unwrap(), "");
}
