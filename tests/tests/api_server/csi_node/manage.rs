//! Without a kubelet the host writes what kubelet 1.36 writes, beside everybody else's, and takes away only what it made.

use crate::csi_node::cluster::{Cluster, eventually};
use crate::csi_node::serve::{DRIVER, Serving};
use crate::csi_node::watched::{answer, node_info};
use kube::api::PostParams;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::Events;
use wasmount_kubernetes::csi_node::{self, CsiNodeReconciler, NodeWriter, Writer};

const SECOND: &str = "second.example.com";
const FOREIGN: &str = "foreign.example.com";

async fn drivers(cluster: &Cluster) -> Vec<String> {
    let object = cluster.csi_node().await;
    let entries = object.into_iter().flat_map(|it| it.spec.drivers);
    let mut names: Vec<_> = entries.map(|entry| entry.name).collect();
    names.sort_unstable();
    names
}

async fn listed(cluster: &Cluster, names: &[&str]) {
    let what = format!("CSINode lists {names:?}");
    eventually(&what, async || drivers(cluster).await == names).await;
}

async fn foreign_csi_node(cluster: &Cluster, entries: Value) {
    let object = json!({ "metadata": { "name": cluster.node }, "spec": { "drivers": entries } });
    let object = serde_json::from_value(object).unwrap();
    let csi_nodes = cluster.csi_nodes();
    csi_nodes
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

/// Without what the API server adds.
fn written(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        metadata.remove(key);
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_managed_csi_node_equals_kubelets_and_is_stable() {
    let taint = |key: &str, effect: &str| json!({ "key": key, "effect": effect });
    let own = "hostpath.wasmount.io/agent-not-ready";
    let taints = json!([
        taint(own, "NoExecute"),
        taint("x", "NoSchedule"),
        taint(own, "NoSchedule"),
        taint("other.example.com/agent-not-ready", "NoExecute"),
    ]);
    let cluster = Cluster::with_node("managed", json!({ "spec": { "taints": taints } })).await;
    let mut serving = Serving::start(&cluster, "manage", &cluster.kubeconfig, &[]);
    listed(&cluster, &[DRIVER]).await;
    let node = cluster.node().await;
    assert_eq!(
        written(json!(cluster.csi_node().await)),
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {
                "name": "managed",
                "annotations": { "storage.alpha.kubernetes.io/migrated-plugins":
                    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume" },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": "managed", "uid": node.metadata.uid,
                }],
            },
            "spec": { "drivers": [{
                "name": DRIVER,
                "nodeID": "test-node",
                "topologyKeys": ["topology.hostpath.wasmount.io/node"],
                "allocatable": { "count": 100 },
            }] },
        })
    );
    assert_eq!(
        written(json!(node))["metadata"],
        json!({
            "name": "managed",
            "annotations": { "csi.volume.kubernetes.io/nodeid": r#"{"hostpath.wasmount.io":"test-node"}"# },
            "labels": { "topology.hostpath.wasmount.io/node": "test-node" },
        })
    );
    cluster.told("Normal", "StartupTaintRemoved", own).await;
    let mut left = cluster.node().await.spec.unwrap().taints.unwrap();
    // Of a Node without a kubelet: the API server's own.
    left.retain(|taint| taint.key != "node.kubernetes.io/not-ready");
    let others = [
        taint("x", "NoSchedule"),
        taint("other.example.com/agent-not-ready", "NoExecute"),
    ];
    assert_eq!(json!(left), json!(others));

    let before = cluster.csi_node().await.unwrap();
    serving.host.terminate().unwrap();
    assert_eq!(cluster.csi_node().await.unwrap(), before, "entries stay");
    serving.host.restart().unwrap();
    eventually("listed again", async || {
        serving
            .host
            .log()
            .matches("CSINode and Node match the driver")
            .count()
            >= 2
    })
    .await;
    assert_eq!(
        cluster.csi_node().await.unwrap(),
        before,
        "nothing was to be written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_stale_entries_go_and_foreign_ones_stay() {
    let cluster = Cluster::with_node("retired", json!({})).await;
    let foreign = json!({ "name": FOREIGN, "nodeID": "f", "topologyKeys": ["k"] });
    foreign_csi_node(&cluster, json!([foreign])).await;
    let ids = json!({ "csi.volume.kubernetes.io/nodeid": r#"{"foreign.example.com":"f"}"# });
    cluster
        .change_node(json!({ "metadata": { "annotations": ids } }))
        .await;
    let mut serving = Serving::start(&cluster, "manage", &cluster.kubeconfig, &[SECOND]);
    listed(&cluster, &[FOREIGN, DRIVER, SECOND]).await;

    serving.host.terminate().unwrap();
    let second = serving.folder.path().join(format!("{SECOND}.yaml"));
    serving
        .host
        .options()
        .backends
        .retain(|path| *path != second);
    assert_eq!(serving.host.options().backends.len(), 1);
    serving.host.restart().unwrap();
    listed(&cluster, &[FOREIGN, DRIVER]).await;
    let annotations = cluster.node().await.metadata.annotations.unwrap();
    assert_eq!(
        annotations["csi.volume.kubernetes.io/nodeid"],
        r#"{"foreign.example.com":"f","hostpath.wasmount.io":"test-node"}"#
    );
    let object = cluster.csi_node().await.unwrap();
    let kept = object.spec.drivers.iter().find(|it| it.name == FOREIGN);
    assert_eq!(json!(kept), foreign);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_an_entry_that_is_wrong_or_gone_is_written_again() {
    let cluster = Cluster::with_node("mended", json!({})).await;
    let wrong = json!({ "name": DRIVER, "nodeID": "wrong", "topologyKeys": ["k"] });
    foreign_csi_node(&cluster, json!([wrong])).await;
    let _serving = Serving::start(&cluster, "manage", &cluster.kubeconfig, &[]);
    let right = async || {
        let object = cluster.csi_node().await;
        object.is_some_and(|it| it.spec.drivers.iter().any(|it| it.node_id == "test-node"))
    };
    eventually("the entry is taken away and added", right).await;
    cluster
        .change_csi_node(json!({ "spec": { "drivers": [] } }))
        .await;
    eventually("the entry is there again", right).await;
    let csi_nodes = cluster.csi_nodes();
    csi_nodes
        .delete(&cluster.node, &Default::default())
        .await
        .unwrap();
    eventually("the object is there again", right).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_differing_node_label_is_reported_not_written() {
    let key = "topology.hostpath.wasmount.io/node";
    let labels = json!({ "metadata": { "labels": { (key): "elsewhere" } } });
    let cluster = Cluster::with_node("collided", labels).await;
    let serving = Serving::start(&cluster, "manage", &cluster.kubeconfig, &[]);
    serving
        .logged("Node has the label topology.hostpath.wasmount.io/node=elsewhere")
        .await;
    assert!(cluster.csi_node().await.is_none());
    cluster
        .change_node(json!({ "metadata": { "labels": { (key): null } } }))
        .await;
    listed(&cluster, &[DRIVER]).await;
}

/// Each change of another writer makes the version old that ours was about to change.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_lose_no_write() {
    let cluster = Arc::new(Cluster::with_node("storm", json!({})).await);
    foreign_csi_node(&cluster, json!([])).await;
    let mut tasks = JoinSet::new();
    let (seen, work) = csi_node::watch(cluster.client.clone(), cluster.node.clone());
    tasks.spawn(work);
    let names = ["a.example.com", "b.example.com", "c.example.com"];
    let mut answers = Vec::new();
    for name in names {
        let (sender, receiver) = watch::channel(Some(node_info(&answer(name))));
        answers.push(sender);
        let data_dir = Path::new("/var/lib").join(name);
        let client = cluster.client.clone();
        let reconciler = CsiNodeReconciler {
            driver: DriverName::parse(name).unwrap(),
            node_name: cluster.node.clone(),
            answers: receiver,
            seen: seen.clone(),
            writer: NodeWriter::Own(Arc::new(Writer::new(
                client.clone(),
                cluster.node.clone(),
                &data_dir,
            ))),
            update_period: None,
            events: Events::new(Some(client.clone()), cluster.node.clone()),
            client,
            report: Arc::new(|_| {}),
        };
        tasks.spawn(reconciler.run());
    }
    let csi_nodes = cluster.csi_nodes();
    for round in 1..=100 {
        // As kubelet does: the whole object, again after a conflict.
        loop {
            let mut object = csi_nodes.get(&cluster.node).await.unwrap();
            object.spec.drivers.retain(|it| it.name != FOREIGN);
            let entry = json!({ "name": FOREIGN, "nodeID": "f", "topologyKeys": null, "allocatable": { "count": round } });
            object
                .spec
                .drivers
                .push(serde_json::from_value(entry).unwrap());
            match csi_nodes
                .replace(&cluster.node, &PostParams::default(), &object)
                .await
            {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    listed(&cluster, &[names[0], names[1], names[2], FOREIGN]).await;
    let object = cluster.csi_node().await.unwrap();
    let foreign = object.spec.drivers.iter().find(|it| it.name == FOREIGN);
    let count = foreign.and_then(|it| it.allocatable.as_ref()?.count);
    assert_eq!(count, Some(100));
    let annotations = cluster.node().await.metadata.annotations.unwrap();
    assert_eq!(
        annotations["csi.volume.kubernetes.io/nodeid"],
        r#"{"a.example.com":"storage-7","b.example.com":"storage-7","c.example.com":"storage-7"}"#
    );
}
