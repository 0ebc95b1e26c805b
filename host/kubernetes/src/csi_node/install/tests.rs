//! The algorithm over objects: what kubelet writes, in full; and its properties over any objects: at most two patches to a state that needs none,
//! with everything of other managers unchanged.

use super::super::drift::drifts;
use super::super::facts::tests::facts;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn node(labels: Value, annotations: Value) -> Node {
    serde_json::from_value(json!({ "metadata": {
        "name": "w", "uid": "u-1", "resourceVersion": "7", "labels": labels, "annotations": annotations,
    } }))
    .unwrap()
}

fn csi_node(owner: &str, drivers: Value) -> CSINode {
    serde_json::from_value(json!({
        "metadata": {
            "name": "w", "resourceVersion": "9",
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "w", "uid": owner },
                { "apiVersion": "v1", "kind": "Machine", "name": "m", "uid": "u-m" },
            ],
        },
        "spec": { "drivers": drivers },
    }))
    .unwrap()
}

/// Applies patches as the writer does; returns how many.
fn written_to(facts: &DriverFacts, node: &Node, csi_node: &CSINode) -> (Node, CSINode, usize) {
    let mut node = node.clone();
    if let Some(patch) = next_node_patch(facts, &node).unwrap() {
        node = patch.applied(&node).unwrap();
    }
    let mut csi_node = csi_node.clone();
    let mut patches = 0;
    while let Some(patch) = next_csi_node_patch(facts, &node, &csi_node) {
        csi_node = patch.applied(&csi_node).unwrap();
        patches += 1;
        assert!(patches <= 2);
    }
    (node, csi_node, patches)
}

#[test]
fn a_new_csi_node_is_kubelets() {
    let facts = facts("a.b", "n-1", &[("zone", "a"), ("rack", "1")], Some(5));
    let made = new_csi_node(&facts, &node(json!(null), json!(null)));
    assert_eq!(
        serde_json::to_value(made).unwrap(),
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {
                "name": "w",
                "annotations": { "storage.alpha.kubernetes.io/migrated-plugins":
                    "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "w", "uid": "u-1" }],
            },
            "spec": { "drivers": [
                { "name": "a.b", "nodeID": "n-1", "topologyKeys": ["rack", "zone"], "allocatable": { "count": 5 } },
            ] },
        })
    );
}

#[test]
fn a_node_gets_labels_and_its_id_beside_those_of_others() {
    let facts = facts("a.b", "n-1", &[("zone.x/y", "a")], None);
    for (labels, annotations, ids) in [
        (json!(null), json!(null), r#"{"a.b":"n-1"}"#),
        (
            json!({ "x": "y" }),
            json!({ NODE_IDS: r#"{"z":"9","a.b":"old"}"#, "k": "v" }),
            r#"{"a.b":"n-1","z":"9"}"#,
        ),
    ] {
        let before = node(labels.clone(), annotations.clone());
        let patch = next_node_patch(&facts, &before).unwrap().unwrap();
        let after = patch.applied(&before).unwrap();
        let mut expected = before;
        let all = expected.metadata.labels.get_or_insert_default();
        all.insert("zone.x/y".to_owned(), "a".to_owned());
        let all = expected.metadata.annotations.get_or_insert_default();
        all.insert(NODE_IDS.to_owned(), ids.to_owned());
        assert_eq!(after, expected);
        assert_eq!(next_node_patch(&facts, &after).unwrap(), None);
    }
}

#[test]
fn a_label_with_another_value_or_a_broken_annotation_is_refused() {
    let facts = facts("a.b", "n-1", &[("zone", "a")], None);
    for (labels, annotations, text) in [
        (json!({ "zone": "b" }), json!(null), "the label zone=b"),
        (json!({ "zone": "" }), json!(null), "the label zone="),
        (json!(null), json!({ NODE_IDS: "x" }), "is no JSON map"),
    ] {
        let refused = next_node_patch(&facts, &node(labels, annotations)).unwrap_err();
        assert!(refused.to_string().contains(text), "{refused}");
    }
}

#[test]
fn a_patch_applies_to_what_was_read_and_to_nothing_newer() {
    let facts = facts("a.b", "n-1", &[], None);
    let read = csi_node("u-1", json!([]));
    let node = node(json!(null), json!(null));
    let patch = next_csi_node_patch(&facts, &node, &read).unwrap();
    let mut newer = read;
    newer.metadata.resource_version = Some("10".to_owned());
    assert!(patch.applied(&newer).is_err());
}

#[test]
fn csi_node_entries_are_replaced_and_limits_changed_in_place() {
    let node = node(json!(null), json!(null));
    for (entry, patches) in [
        (
            json!({ "name": "a.b", "nodeID": "n-1", "topologyKeys": ["r", "z"], "allocatable": { "count": 2 } }),
            0,
        ),
        (
            json!({ "name": "a.b", "nodeID": "n-1", "topologyKeys": ["z", "r"], "allocatable": { "count": 2 } }),
            0,
        ),
        (
            json!({ "name": "a.b", "nodeID": "n-1", "topologyKeys": ["r", "z"], "allocatable": { "count": 3 } }),
            1,
        ),
        (
            json!({ "name": "a.b", "nodeID": "n-1", "topologyKeys": ["r", "z"] }),
            1,
        ),
        (
            json!({ "name": "a.b", "nodeID": "n-2", "topologyKeys": ["r", "z"], "allocatable": { "count": 2 } }),
            2,
        ),
        (
            json!({ "name": "a.b", "nodeID": "n-1", "topologyKeys": ["r"], "allocatable": { "count": 2 } }),
            2,
        ),
        (
            json!({ "name": "c.d", "nodeID": "n-1", "topologyKeys": null }),
            1,
        ),
    ] {
        let facts = facts("a.b", "n-1", &[("z", "1"), ("r", "2")], Some(2));
        // Other missing parts are not counted here.
        let mut before = csi_node("u-1", json!([entry]));
        let annotation = (MIGRATED_PLUGINS.to_owned(), MIGRATED.join(","));
        before.metadata.annotations = Some(BTreeMap::from([annotation]));
        let (_, after, taken) = written_to(&facts, &node, &before);
        assert_eq!(taken, patches, "{entry}");
        let found = drifts(&facts, Some(&node), Some(&after));
        assert!(
            found.iter().all(|it| it.text.starts_with("Node")),
            "{found:?}"
        );
    }
}

#[test]
fn a_csi_node_of_an_earlier_node_gets_its_owner() {
    let facts = facts("a.b", "n-1", &[], None);
    let other = json!({ "name": "c.d", "nodeID": "o", "topologyKeys": ["k"] });
    let (node, after, _) = written_to(
        &facts,
        &node(json!(null), json!(null)),
        &csi_node("u-0", json!([other])),
    );
    assert_eq!(drifts(&facts, Some(&node), Some(&after)), []);
    let owners: Vec<_> = after.metadata.owner_references.iter().flatten().collect();
    let uids: Vec<_> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(uids, ["u-m", "u-1"]);
    assert_eq!(json!(after.spec.drivers[0]), other);
}

#[test]
fn only_what_this_manager_alone_made_is_its_own() {
    let fields = |names: &[&str]| {
        let entries = names
            .iter()
            .map(|name| (format!(r#"k:{{"name":"{name}"}}"#), json!({ ".": {} })));
        json!({ "f:spec": { "f:drivers": Value::Object(entries.collect()) } })
    };
    let mut object = csi_node("u-1", json!([]));
    object.metadata.managed_fields = serde_json::from_value(json!([
        { "manager": "wasmount-1", "fieldsV1": fields(&["a", "b"]) },
        { "manager": "kubelet", "fieldsV1": fields(&["b", "c"]) },
        { "manager": "wasmount-2", "fieldsV1": fields(&["d"]) },
        { "manager": "wasmount-1", "fieldsV1": fields(&["e"]) },
    ]))
    .unwrap();
    let made = |manager| made_by(&object, manager).into_iter().collect::<Vec<_>>();
    assert_eq!(made("wasmount-1"), ["a", "e"]);
    assert_eq!(made("wasmount-2"), ["d"]);
    assert!(made("somebody").is_empty());
}

#[test]
fn what_is_taken_away_leaves_all_else() {
    let gone = BTreeSet::from(["a".to_owned(), "c".to_owned()]);
    let entry = |name: &str| json!({ "name": name, "nodeID": "n", "topologyKeys": [] });
    let before = csi_node("u-1", json!([entry("a"), entry("b"), entry("c")]));
    let after = csi_node_without(&before, &gone)
        .unwrap()
        .applied(&before)
        .unwrap();
    assert_eq!(json!(after.spec.drivers), json!([entry("b")]));
    assert_eq!(csi_node_without(&after, &gone), None);

    for (ids, left) in [
        (r#"{"a":"1","b":"2"}"#, Some(r#"{"b":"2"}"#)),
        (r#"{"a":"1","c":"2"}"#, None),
    ] {
        let before = node(json!(null), json!({ NODE_IDS: ids, "k": "v" }));
        let after = node_without(&before, &gone)
            .unwrap()
            .applied(&before)
            .unwrap();
        let annotations = after.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations.get(NODE_IDS).map(String::as_str), left);
        assert_eq!(annotations.get("k").map(String::as_str), Some("v"));
        assert_eq!(node_without(&after, &gone), None);
    }
}

fn entries() -> impl Strategy<Value = Vec<Value>> {
    let entry = |name: &'static str| {
        let keys = prop::collection::vec("[a-c]", 0..3);
        (Just(name), "n-[12]", keys, prop::option::of(1..4)).prop_map(|(name, id, keys, count)| {
            let allocatable = count.map(|count| json!({ "count": count }));
            json!({ "name": name, "nodeID": id, "topologyKeys": keys, "allocatable": allocatable })
        })
    };
    let own = prop::option::of(entry("own.driver"));
    (entry("other.driver"), own, entry("third.driver")).prop_map(|(first, own, last)| {
        let all = [Some(first), own, Some(last)];
        all.into_iter().flatten().collect()
    })
}

proptest! {
    #[test]
    fn csi_node_ends_as_the_driver_says_others_unchanged(
        entries in entries(),
        keys in prop::collection::btree_set("[a-c]", 0..3),
        count in prop::option::of(0..4_u64),
        owner in "u-[01]",
        other_id in prop::option::of("[a-z]{1,4}"),
    ) {
        let topology: Vec<_> = keys.iter().map(|key| (key.as_str(), "v")).collect();
        let facts = facts("own.driver", "n-1", &topology, count);
        let ids = other_id.map(|id| json!({ NODE_IDS: json!({ "other.driver": id }).to_string() }));
        let before = csi_node(&owner, json!(entries));
        let (node, after, _) = written_to(&facts, &node(json!(null), json!(ids)), &before);

        prop_assert_eq!(drifts(&facts, Some(&node), Some(&after)), []);
        let others = |it: &CSINode| -> Vec<_> {
            let entries = it.spec.drivers.iter();
            entries.filter(|entry| entry.name != "own.driver").cloned().collect()
        };
        prop_assert_eq!(others(&after), others(&before));
        let kept = node_ids(&node).unwrap().remove("other.driver");
        prop_assert_eq!(kept.is_some(), ids.is_some());
        // A second run changes nothing.
        let (again_node, again, patches) = written_to(&facts, &node, &after);
        prop_assert_eq!((again_node, again, patches), (node, after, 0));
    }
}
