//! Beside a kubelet: each fact that drifts is noticed, reported and repaired by another registration, or reported as what an administrator must repair.

use crate::csi_node::cluster::Cluster;
use crate::csi_node::kubelet;
use crate::csi_node::watched::{Watched, answer};
use crate::server::Server;
use futures::FutureExt;
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::Events;
use wasmount_kubernetes::csi_node::clear_to_register;

const DRIVER: &str = "csi.example.com";

async fn listed(name: &str) -> (Arc<Cluster>, Watched) {
    let cluster = Arc::new(Cluster::with_node(name, json!({})).await);
    let answer = answer(DRIVER);
    kubelet::install(&cluster, &answer).await;
    let watched = Watched::begin(&cluster, answer, true).await;
    watched.listed().await;
    (cluster, watched)
}

fn entry(change: Value) -> Value {
    let mut entry = json!({
        "name": DRIVER, "nodeID": "storage-7", "topologyKeys": ["example.com/rack"], "allocatable": { "count": 16 },
    });
    for (key, value) in change.as_object().unwrap() {
        entry[key] = value.clone();
    }
    json!({ "spec": { "drivers": [entry] } })
}

/// Changes objects as another client does, and waits until all is right again.
async fn drifts(name: &str, of_node: Option<Value>, of_csi_node: Vec<Value>, words: &str) {
    let (cluster, watched) = listed(name).await;
    if let Some(change) = of_node {
        cluster.change_node(change).await;
    }
    for change in of_csi_node {
        cluster.change_csi_node(change).await;
    }
    cluster.told("Warning", "CSINodeDrift", words).await;
    let normal = "CSI driver csi.example.com: CSINode and Node match the driver";
    cluster.told("Normal", "CSINodeListed", normal).await;
    watched.listed().await;
    assert_eq!(
        (watched.renewals(), watched.status().drifts),
        (1, 1),
        "{name}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_drift_is_reported_and_corrected_once() {
    let none = json!({ "spec": { "drivers": [] } });
    let annotation = |value| json!({ "metadata": { "annotations": { "csi.volume.kubernetes.io/nodeid": value } } });
    let label = json!({ "metadata": { "labels": { "example.com/rack": null } } });
    let owners = json!({ "metadata": { "ownerReferences": [] } });
    // An entry cannot be changed in these: it was taken away, and another came.
    let id = [none.clone(), entry(json!({ "nodeID": "other" }))];
    let keys = [
        none.clone(),
        entry(json!({ "topologyKeys": ["example.com/room"] })),
    ];
    let count = [entry(json!({ "allocatable": { "count": 3 } }))];
    let rows = [
        (
            "entry",
            None,
            vec![none],
            "CSINode does not list the driver",
        ),
        (
            "id",
            None,
            id.into(),
            r#"the nodeID "other", the driver says "storage-7""#,
        ),
        ("keys", None, keys.into(), "topologyKeys [example.com/room]"),
        (
            "count",
            None,
            count.into(),
            "allocatable.count 3, the driver says 16",
        ),
        (
            "owner",
            None,
            vec![owners],
            "CSINode is not owned by the Node object",
        ),
        (
            "label",
            Some(label),
            vec![],
            "Node lacks the label example.com/rack=r1",
        ),
        (
            "id-gone",
            Some(annotation(json!(null))),
            vec![],
            "does not name the driver",
        ),
        (
            "id-other",
            Some(annotation(json!(r#"{"csi.example.com":"x"}"#))),
            vec![],
            r#"has the node id "x""#,
        ),
    ];
    let all =
        rows.map(|(name, of_node, of_csi_node, words)| drifts(name, of_node, of_csi_node, words));
    join_all(all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_differing_node_label_blocks_registration() {
    let (cluster, watched) = listed("relabelled").await;
    let label = |value: &str| json!({ "metadata": { "labels": { "example.com/rack": value } } });
    cluster.change_node(label("r2")).await;
    let words = "Node has the label example.com/rack=r2, the driver's topology says r1: kubelet refuses the driver until `kubectl label node`";
    cluster.told("Warning", "CSINodeDrift", words).await;
    watched.not_listed(words).await;
    cluster.change_node(label("r1")).await;
    cluster.told("Normal", "CSINodeListed", "").await;
    watched.listed().await;
    assert_eq!(watched.renewals(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_that_is_no_map_is_a_persons_too() {
    let (cluster, watched) = listed("annotated").await;
    let broken =
        json!({ "metadata": { "annotations": { "csi.volume.kubernetes.io/nodeid": "?" } } });
    cluster.change_node(broken).await;
    let words =
        "is no JSON map: kubelet refuses every driver until `kubectl annotate node` removes it";
    cluster.told("Warning", "CSINodeDrift", words).await;
    watched.not_listed(words).await;
    assert_eq!(watched.renewals(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_waits_while_a_label_collides_and_no_longer() {
    let taken = json!({ "metadata": { "labels": { "example.com/rack": "r9" } } });
    let cluster = Arc::new(Cluster::with_node("collides", taken).await);
    let watched = Watched::begin(&cluster, answer(DRIVER), false).await;
    let events = Events::new(Some(cluster.client.clone()), cluster.node.clone());
    let clear = clear_to_register(
        DriverName::parse(DRIVER).unwrap(),
        watched.answers.subscribe(),
        cluster.node.clone(),
        watched.seen.clone(),
        events,
    );
    let mut clear = Box::pin(clear);
    let words = "the label example.com/rack=r9, the driver's topology says r1";
    tokio::select! {
        () = &mut clear => panic!("it would have registered"),
        () = cluster.told("Warning", "CSITopologyCollision", words) => {}
    }
    watched.not_listed(words).await;
    assert!((&mut clear).now_or_never().is_none());
    let free = json!({ "metadata": { "labels": { "example.com/rack": null } } });
    cluster.change_node(free).await;
    clear.await;
    assert_eq!(watched.status().drifts, 0, "it never was listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_outage_loses_no_change() {
    let server = Server::start().await;
    let cluster = Arc::new(Cluster::of(&server, "away", json!({})).await);
    let answer = answer(DRIVER);
    kubelet::install(&cluster, &answer).await;
    let watched = Watched::begin(&cluster, answer, true).await;
    watched.listed().await;
    // Versions that the restarted server no longer has: the watch must list again (410 Gone).
    for round in 0..50 {
        let churn = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        cluster.change_node(churn).await;
    }
    server.plane.stop_api();
    cluster.nodes().get(&cluster.node).await.unwrap_err();
    assert!(watched.status().listed, "what was seen last stands");
    server.plane.start_api().await.unwrap();
    assert!(watched.status().listed);
    let none = json!({ "spec": { "drivers": [] } });
    cluster.change_csi_node(none).await;
    cluster
        .told("Warning", "CSINodeDrift", "does not list")
        .await;
    cluster.told("Normal", "CSINodeListed", "").await;
    assert_eq!(watched.renewals(), 1);
}
