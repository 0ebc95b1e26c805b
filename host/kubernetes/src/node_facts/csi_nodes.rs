//! Which node has which id, by CSINode.

use k8s_openapi::api::storage::v1::CSINode;
use kube::ResourceExt;
use std::sync::Arc;

/// A node on which a driver has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    /// The name of its Node.
    pub(super) node: String,
    /// The uid of its Node.
    pub(super) uid: Option<String>,
}

/// The nodes on which a driver has this id: one, unless a node claims the id of another.
pub(super) fn with_id(nodes: &[Arc<CSINode>], driver: &str, id: &str) -> Vec<Registered> {
    let has_id = |node: &&Arc<CSINode>| {
        let mut drivers = node.spec.drivers.iter();
        drivers.any(|known| known.name == driver && known.node_id == id)
    };
    let registered = |node: &Arc<CSINode>| Registered {
        node: node.name_any(),
        uid: uid_of_node(node),
    };
    nodes.iter().filter(has_id).map(registered).collect()
}

/// The uid of the Node that a CSINode belongs to.
pub(super) fn uid_of_node(csi_node: &CSINode) -> Option<String> {
    let mut owners = csi_node.owner_references().iter();
    let node = owners.find(|owner| owner.kind == "Node")?;
    Some(node.uid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, id: &str) -> Arc<CSINode> {
        let node = json!({
            "metadata": { "name": name, "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-{name}") }] },
            "spec": { "drivers": [
                { "name": "other.example", "nodeID": "same", "topologyKeys": null },
                { "name": "a.example", "nodeID": id, "topologyKeys": null },
            ] },
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_node_is_found_by_the_id_of_its_driver() {
        let nodes = [node("n1", "i-1"), node("n2", "i-2")];
        let expected = Registered {
            node: "n2".to_owned(),
            uid: Some("uid-n2".to_owned()),
        };
        assert_eq!(with_id(&nodes, "a.example", "i-2"), [expected]);
        assert_eq!(with_id(&nodes, "a.example", "same"), []);
        assert_eq!(with_id(&nodes, "b.example", "i-2"), []);
    }

    #[test]
    fn two_nodes_with_one_id_are_both_found() {
        let nodes = [node("n1", "i-1"), node("n2", "i-1")];
        assert_eq!(with_id(&nodes, "a.example", "i-1").len(), 2);
    }
}
