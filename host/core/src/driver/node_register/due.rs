//! Which nodes must be registered with the storage system, and which unregistered. It knows neither cluster nor backend.

use crate::names::NodeId;
use crate::nodes::{Facts, NodeList};
use crate::rpc::Rpc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The Node that was registered under an id. It is kept durably: by it the next controller finds nodes that left while none ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Its name.
    pub(super) node: String,
    /// Distinguishes it from another Node of the same name.
    pub(super) uid: Option<String>,
}

/// A node as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) kept: Kept,
    /// The facts that its host told.
    pub(super) facts: Facts,
}

/// The call that a node needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Register(Present),
    Unregister(Kept),
}

/// All nodes, by name and by id.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    list: NodeList,
    /// The names of the nodes that have an id.
    with_id: BTreeMap<NodeId, Vec<String>>,
}

impl Nodes {
    pub(super) fn new(list: NodeList) -> Self {
        let mut with_id = BTreeMap::<_, Vec<String>>::new();
        for (name, node) in &list {
            if let Some(id) = &node.id {
                with_id.entry(id.clone()).or_default().push(name.clone());
            }
        }
        Self { list, with_id }
    }

    /// The ids that nodes have.
    pub(super) fn ids(&self) -> impl Iterator<Item = &NodeId> {
        self.with_id.keys()
    }

    /// What an id needs. `kept`: the Node that was registered under it, by any version; `done`: what this version registered; `needs_facts`: whether
    /// a node whose host has told nothing has to wait.
    pub(super) fn step(
        &self,
        id: &NodeId,
        kept: Option<&Kept>,
        done: Option<&Present>,
        needs_facts: bool,
    ) -> Option<Step> {
        match self.with_id.get(id).map(Vec::as_slice) {
            None => kept
                .filter(|kept| self.has_left(kept))
                .map(|kept| Step::Unregister(kept.clone())),
            Some([name]) => {
                let node = self.list.get(name)?;
                if needs_facts && node.facts.is_none() {
                    return None;
                }
                let present = Present {
                    kept: Kept {
                        node: name.clone(),
                        uid: node.uid.clone(),
                    },
                    facts: node.facts.clone().unwrap_or_default(),
                };
                (done != Some(&present)).then_some(Step::Register(present))
            }
            // One of them claims to be another: their facts are not known (`NodesError::Unavailable`).
            Some(_) => None,
        }
    }

    /// kubelet removes a driver from CSINode while the driver's pod is replaced. The node and its attached volumes stay, so it has left only if its
    /// Node is gone, or has the driver under another id.
    fn has_left(&self, kept: &Kept) -> bool {
        self.list
            .get(&kept.node)
            .is_none_or(|node| node.id.is_some())
    }
}

impl Step {
    /// The call.
    pub(super) fn rpc(&self) -> Rpc {
        match self {
            Self::Register(_) => Rpc::RegisterNode,
            Self::Unregister(_) => Rpc::UnregisterNode,
        }
    }

    /// The name of the Node.
    pub(super) fn node(&self) -> &str {
        match self {
            Self::Register(Present { kept, .. }) | Self::Unregister(kept) => &kept.node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_fact::{FactValues, NodeFact};
    use crate::nodes::ListedNode;

    fn id(id: &str) -> NodeId {
        NodeId::parse("node_id", id).unwrap()
    }

    fn facts(iqn: &str) -> Facts {
        let values = FactValues::try_from(vec![iqn.to_owned()]).unwrap();
        Facts::from([(NodeFact::Iqn, values)])
    }

    fn node(uid: &str, own_id: Option<&str>, told: Option<Facts>) -> ListedNode {
        ListedNode {
            uid: Some(uid.to_owned()),
            id: own_id.map(id),
            facts: told,
        }
    }

    fn nodes<const N: usize>(nodes: [(&str, ListedNode); N]) -> Nodes {
        Nodes::new(nodes.map(|(name, node)| (name.to_owned(), node)).into())
    }

    fn kept(uid: &str) -> Kept {
        Kept {
            node: "a".to_owned(),
            uid: Some(uid.to_owned()),
        }
    }

    fn present(uid: &str, iqn: &str) -> Present {
        Present {
            kept: kept(uid),
            facts: facts(iqn),
        }
    }

    /// The step for the id `i` that a node of uid 1 had, or has.
    fn step(nodes: &Nodes, done: Option<&Present>) -> Option<Step> {
        nodes.step(&id("i"), Some(&kept("1")), done, true)
    }

    #[test]
    fn a_node_is_registered_at_first_and_after_a_change() {
        let registered = |uid, iqn| Some(Step::Register(present(uid, iqn)));
        let there = nodes([("a", node("1", Some("i"), Some(facts("iqn.a"))))]);
        assert_eq!(step(&there, None), registered("1", "iqn.a"));
        // By this version for the first time, although an earlier one has registered it.
        let new = there.step(&id("i"), None, None, true);
        assert_eq!(new, registered("1", "iqn.a"));
        let other_facts = present("1", "iqn.b");
        assert_eq!(step(&there, Some(&other_facts)), registered("1", "iqn.a"));
        let other_node = present("0", "iqn.a");
        assert_eq!(step(&there, Some(&other_node)), registered("1", "iqn.a"));
    }

    #[test]
    fn a_node_without_a_change_is_not_registered_again() {
        let there = nodes([("a", node("1", Some("i"), Some(facts("iqn.a"))))]);
        assert_eq!(step(&there, Some(&present("1", "iqn.a"))), None);
    }

    #[test]
    fn a_node_whose_facts_are_not_told_waits_if_they_are_needed() {
        let silent = nodes([("a", node("1", Some("i"), None))]);
        assert_eq!(silent.step(&id("i"), None, None, true), None);
        let registered = silent.step(&id("i"), None, None, false);
        let expected = Present {
            kept: kept("1"),
            facts: Facts::new(),
        };
        assert_eq!(registered, Some(Step::Register(expected)));
    }

    #[test]
    fn a_node_that_left_is_unregistered() {
        let unregistered = Some(Step::Unregister(kept("1")));
        assert_eq!(step(&nodes([]), None), unregistered);
        let others = nodes([("b", node("2", Some("j"), None))]);
        assert_eq!(step(&others, None), unregistered);
        let renamed = nodes([("a", node("1", Some("j"), None))]);
        assert_eq!(step(&renamed, None), unregistered);
    }

    #[test]
    fn a_node_that_stays_is_not_unregistered() {
        let done = present("1", "iqn.a");
        let restarting = nodes([("a", node("1", None, Some(facts("iqn.a"))))]);
        assert_eq!(step(&restarting, Some(&done)), None);
        // A new Node of the same name will probably have the same id.
        let replaced = nodes([("a", node("2", None, None))]);
        assert_eq!(step(&replaced, Some(&done)), None);
        // Nor is one that was never registered.
        assert_eq!(nodes([]).step(&id("i"), None, None, true), None);
    }

    #[test]
    fn an_id_that_two_nodes_have_is_left_alone() {
        let both = nodes([
            ("a", node("1", Some("i"), Some(facts("iqn.a")))),
            ("b", node("2", Some("i"), Some(facts("iqn.b")))),
        ]);
        assert_eq!(step(&both, None), None);
    }
}
