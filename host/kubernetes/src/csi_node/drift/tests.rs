//! Each fact is changed alone: it is the only difference that is found, with the right remedy. Objects as kubelet writes them have no difference.

use super::super::facts::tests::facts;
use super::*;
use serde_json::{Value, json};

fn node() -> Value {
    json!({ "metadata": {
        "name": "w", "uid": "u-1",
        "labels": { "zone": "a", "other": "x" },
        "annotations": { NODE_IDS: r#"{"a.b":"n-1","other":"o"}"# },
    } })
}

fn csi_node() -> Value {
    json!({
        "metadata": { "name": "w", "ownerReferences": [
            { "apiVersion": "v1", "kind": "Node", "name": "w", "uid": "u-1" }
        ] },
        "spec": { "drivers": [
            { "name": "other", "nodeID": "o", "topologyKeys": null },
            { "name": "a.b", "nodeID": "n-1", "topologyKeys": ["zone"], "allocatable": { "count": 3 } },
        ] },
    })
}

fn found(node: &Value, csi_node: &Value) -> Vec<Drift> {
    let node: Node = serde_json::from_value(node.clone()).unwrap();
    let csi_node: CSINode = serde_json::from_value(csi_node.clone()).unwrap();
    let facts = facts("a.b", "n-1", &[("zone", "a")], Some(3));
    drifts(&facts, Some(&node), Some(&csi_node))
}

#[test]
fn what_kubelet_writes_has_no_difference() {
    assert_eq!(found(&node(), &csi_node()), []);
}

#[test]
fn each_fact_of_csi_node_is_noticed_by_itself() {
    let entry = "/spec/drivers/1";
    for (path, value, remedy, text) in [
        (
            "/spec/drivers",
            json!([]),
            Remedy::Rewrite,
            "CSINode does not list the driver",
        ),
        (
            &format!("{entry}/nodeID"),
            json!("n-2"),
            Remedy::Rewrite,
            r#"CSINode has the nodeID "n-2", the driver says "n-1""#,
        ),
        (
            &format!("{entry}/topologyKeys"),
            json!(["zone", "rack"]),
            Remedy::Rewrite,
            "CSINode has the topologyKeys [rack, zone], the driver says [zone]",
        ),
        (
            &format!("{entry}/allocatable/count"),
            json!(4),
            Remedy::Refresh,
            "CSINode has the allocatable.count 4, the driver says 3",
        ),
        (
            &format!("{entry}/allocatable"),
            json!(null),
            Remedy::Refresh,
            "CSINode has the allocatable.count none, the driver says 3",
        ),
        (
            "/metadata/ownerReferences/0/uid",
            json!("u-0"),
            Remedy::Rewrite,
            "CSINode is not owned by the Node object that is there now (u-1)",
        ),
        (
            "/metadata/ownerReferences",
            json!([]),
            Remedy::Rewrite,
            "CSINode is not owned by the Node object that is there now (u-1)",
        ),
    ] {
        let mut object = csi_node();
        *object.pointer_mut(path).unwrap() = value;
        let drifts = found(&node(), &object);
        assert_eq!(drifts.len(), 1, "{path}: {drifts:?}");
        assert_eq!(drifts[0].remedy, remedy, "{path}");
        assert!(drifts[0].text.starts_with(text), "{}", drifts[0].text);
    }
}

#[test]
fn each_fact_of_the_node_is_noticed_by_itself() {
    let annotation = format!("/metadata/annotations/{}", NODE_IDS.replace('/', "~1"));
    for (path, value, remedy, text) in [
        (
            "/metadata/labels",
            json!({}),
            Remedy::Rewrite,
            "Node lacks the label zone=a of the driver's topology",
        ),
        (
            "/metadata/labels/zone",
            json!("b"),
            Remedy::Person,
            "Node has the label zone=b, the driver's topology says a: kubelet refuses",
        ),
        // kubelet also treats an empty value as another value.
        (
            "/metadata/labels/zone",
            json!(""),
            Remedy::Person,
            "Node has the label zone=, the driver's topology says a",
        ),
        (
            &annotation,
            json!(r#"{"other":"o"}"#),
            Remedy::Rewrite,
            "Node's annotation csi.volume.kubernetes.io/nodeid does not name the driver",
        ),
        (
            &annotation,
            json!(r#"{"a.b":"n-2"}"#),
            Remedy::Rewrite,
            r#"Node's annotation csi.volume.kubernetes.io/nodeid has the node id "n-2", the driver says "n-1""#,
        ),
        (
            &annotation,
            json!("broken"),
            Remedy::Person,
            "Node's annotation csi.volume.kubernetes.io/nodeid is no JSON map",
        ),
    ] {
        let mut object = node();
        *object.pointer_mut(path).unwrap() = value;
        let drifts = found(&object, &csi_node());
        assert_eq!(drifts.len(), 1, "{path}: {drifts:?}");
        assert_eq!(drifts[0].remedy, remedy, "{path}");
        assert!(drifts[0].text.starts_with(text), "{}", drifts[0].text);
    }
}

#[test]
fn absent_objects_are_said_and_nothing_else_of_them() {
    let facts = facts("a.b", "n-1", &[("zone", "a")], None);
    let texts = |node: Option<&Node>| sentence(&drifts(&facts, node, None));
    assert!(texts(None).starts_with("there is no Node object of this name"));
    let node: Node = serde_json::from_value(node()).unwrap();
    let absent = "there is no CSINode object of this node";
    assert_eq!(texts(Some(&node)), absent);
}

#[test]
fn only_errors_that_people_must_fix_block_registration() {
    let facts = facts("a.b", "n-1", &[("zone", "a"), ("rack", "1")], None);
    let mut object = node();
    let as_node = |object: &Value| serde_json::from_value::<Node>(object.clone()).unwrap();
    assert_eq!(collisions(&facts, &as_node(&object)), []);
    object["metadata"]["labels"]["rack"] = json!("2");
    let [collision] = &collisions(&facts, &as_node(&object))[..] else {
        panic!("one label collides");
    };
    assert!(collision.text.starts_with("Node has the label rack=2,"));
}
