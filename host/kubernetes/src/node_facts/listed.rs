//! All nodes, as they concern one driver: by CSINode and by what their hosts told.

use super::csi_nodes::uid_of_node;
use super::{FactsObject, name};
use k8s_openapi::api::storage::v1::CSINode;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::nodes::{ListedNode, NodeList};

pub(super) fn nodes(
    driver: &DriverName,
    csi_nodes: &[Arc<CSINode>],
    told: &[Arc<FactsObject>],
) -> NodeList {
    let told = told.iter().filter(|object| {
        let spec = &object.spec;
        spec.driver == driver.as_str() && object.name_any() == name(driver, &spec.node)
    });
    let told: BTreeMap<_, _> = told.map(|object| (&object.spec.node, object)).collect();
    let listed = csi_nodes.iter().map(|csi_node| {
        let (name, uid) = (csi_node.name_any(), uid_of_node(csi_node));
        let mut drivers = csi_node.spec.drivers.iter();
        let own = drivers.find(|known| known.name == driver.as_str());
        // A Node of the same name that was there before may have told them.
        let told = told.get(&name).filter(|object| {
            let owner = object.owner_references().first();
            uid.is_none() || owner.map(|owner| &owner.uid) == uid.as_ref()
        });
        let node = ListedNode {
            id: own.and_then(|own| NodeId::parse("node id", own.node_id.clone()).ok()),
            facts: told.map(|object| object.spec.facts(false)),
            uid,
        };
        (name, node)
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wasmount_core::node_fact::{FactValues, NodeFact};
    use wasmount_core::nodes::Facts;

    fn driver() -> DriverName {
        DriverName::parse("a.example").unwrap()
    }

    fn csi_node(uid: &str, driver: &str) -> Arc<CSINode> {
        let node = json!({
            "metadata": { "name": "n", "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid }] },
            "spec": { "drivers": [{ "name": driver, "nodeID": "i", "topologyKeys": null }] },
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn told(name: &str, uid: &str) -> Arc<FactsObject> {
        let object = json!({
            "metadata": { "name": name, "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid }] },
            "spec": { "driver": "a.example", "node": "n", "facts": { "iqn": ["iqn.a"], "nqn": ["a\nb"] } },
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn one(csi_node: Arc<CSINode>, told: Arc<FactsObject>) -> ListedNode {
        let mut listed = nodes(&driver(), &[csi_node], &[told]);
        listed.remove("n").unwrap()
    }

    #[test]
    fn a_node_has_its_id_and_what_its_host_told() {
        let values = FactValues::try_from(vec!["iqn.a".to_owned()]).unwrap();
        let expected = ListedNode {
            uid: Some("1".to_owned()),
            id: Some(NodeId::parse("node id", "i").unwrap()),
            facts: Some(Facts::from([(NodeFact::Iqn, values)])),
        };
        let name = name(&driver(), "n");
        assert_eq!(one(csi_node("1", "a.example"), told(&name, "1")), expected);
    }

    #[test]
    fn facts_of_another_node_and_other_drivers_are_left_out() {
        let name = name(&driver(), "n");
        let replaced = one(csi_node("2", "a.example"), told(&name, "1"));
        assert_eq!(replaced.facts, None);
        let forged = one(csi_node("1", "a.example"), told("other", "1"));
        assert_eq!(forged.facts, None);
        let other = one(csi_node("1", "b.example"), told(&name, "1"));
        assert_eq!((other.id, other.uid.as_deref()), (None, Some("1")));
    }
}
