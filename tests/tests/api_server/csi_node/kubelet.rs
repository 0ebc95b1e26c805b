//! kubelet's part, by its rules (`pkg/volume/csi/nodeinfomanager`) and in words of this test's own: whole objects are written, an entry goes when a
//! driver does.

use crate::csi_node::cluster::Cluster;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

/// What a driver answers to NodeGetInfo.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) driver: String,
    pub(crate) node_id: String,
    pub(crate) topology: BTreeMap<String, String>,
    pub(crate) count: Option<u32>,
}

/// Takes a driver, as after `RegisterPlugin`.
pub(crate) async fn install(cluster: &Cluster, answer: &Answer) {
    let Answer {
        driver,
        node_id,
        topology,
        count,
    } = answer;
    let node = cluster.node().await;
    let annotations = node.metadata.annotations.unwrap_or_default();
    let ids = annotations.get(NODE_IDS).map_or("{}", String::as_str);
    let mut ids: Value = serde_json::from_str(ids).unwrap();
    ids[driver] = json!(node_id);
    let annotations = json!({ NODE_IDS: ids.to_string() });
    let metadata = json!({ "annotations": annotations, "labels": topology });
    cluster.change_node(json!({ "metadata": metadata })).await;

    let keys: Vec<_> = topology.keys().collect();
    let mut entry = json!({ "name": driver, "nodeID": node_id, "topologyKeys": keys });
    if let Some(count) = count {
        entry["allocatable"] = json!({ "count": count });
    }
    let uid = node.metadata.uid.unwrap();
    let owners = json!([{ "apiVersion": "v1", "kind": "Node", "name": cluster.node, "uid": uid }]);
    let parameters = PostParams::default();
    match cluster.csi_node().await {
        None => {
            let object = json!({
                "metadata": { "name": cluster.node, "ownerReferences": owners },
                "spec": { "drivers": [entry] },
            });
            let object = serde_json::from_value(object).unwrap();
            let csi_nodes = cluster.csi_nodes();
            csi_nodes.create(&parameters, &object).await.unwrap();
        }
        Some(mut object) => {
            object.metadata.owner_references = serde_json::from_value(owners).unwrap();
            object.spec.drivers.retain(|it| it.name != *driver);
            object
                .spec
                .drivers
                .push(serde_json::from_value(entry).unwrap());
            let csi_nodes = cluster.csi_nodes();
            let replaced = csi_nodes.replace(&cluster.node, &parameters, &object);
            replaced.await.unwrap();
        }
    }
}

/// Lets a driver go, as when its registration socket goes.
pub(crate) async fn uninstall(cluster: &Cluster, driver: &str) {
    if let Some(mut object) = cluster.csi_node().await {
        object.spec.drivers.retain(|it| it.name != driver);
        let csi_nodes = cluster.csi_nodes();
        let parameters = PostParams::default();
        let replaced = csi_nodes.replace(&cluster.node, &parameters, &object).await;
        replaced.unwrap();
    }
    let node = cluster.node().await;
    let annotations = node.metadata.annotations.unwrap_or_default();
    let ids = annotations.get(NODE_IDS).map_or("{}", String::as_str);
    let mut ids: BTreeMap<String, String> = serde_json::from_str(ids).unwrap_or_default();
    ids.remove(driver);
    let annotations = json!({ NODE_IDS: json!(ids).to_string() });
    cluster
        .change_node(json!({ "metadata": { "annotations": annotations } }))
        .await;
}
