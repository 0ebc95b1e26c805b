//! What Node and CSINode do not say of a driver.

use super::facts::DriverFacts;
use super::node_ids::{NODE_IDS, node_ids};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver};
use std::collections::BTreeSet;
use std::fmt;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Drift {
    NoNode,
    NoCsiNode,
    NoEntry,
    NodeId {
        found: String,
        said: String,
    },
    TopologyKeys {
        found: String,
        said: String,
    },
    Count {
        found: Option<i32>,
        said: Option<i32>,
    },
    NoLabel {
        key: String,
        said: String,
    },
    Label {
        key: String,
        found: String,
        said: String,
    },
    Annotation {
        found: Option<String>,
        said: String,
    },
    UnreadableAnnotation,
    Owner {
        node: String,
    },
}

/// Who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Whoever writes CSINode, when it writes again.
    Writing,
    /// The same, and it may do so by itself after its period (`nodeAllocatableUpdatePeriodSeconds`).
    DriftPolicy,
    /// A person: kubelet would refuse the driver, and take its entry away.
    Person,
}

impl Drift {
    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Drift::NoNode | Drift::Label { .. } | Drift::UnreadableAnnotation => Remedy::Person,
            Drift::Count { .. } => Remedy::DriftPolicy,
            Drift::NoCsiNode
            | Drift::NoEntry
            | Drift::NodeId { .. }
            | Drift::TopologyKeys { .. }
            | Drift::NoLabel { .. }
            | Drift::Annotation { .. }
            | Drift::Owner { .. } => Remedy::Writing,
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: &Option<i32>| count.map_or("none".to_owned(), |it| it.to_string());
        match self {
            Drift::NoNode => f.write_str(
                "there is no Node object of this name: is kubelet registered, and --node-name its name?",
            ),
            Drift::NoCsiNode => f.write_str("there is no CSINode object of this node"),
            Drift::NoEntry => f.write_str("CSINode does not list the driver"),
            Drift::NodeId { found, said } => {
                write!(f, "CSINode has the nodeID {found:?}, the driver says {said:?}")
            }
            Drift::TopologyKeys { found, said } => {
                write!(f, "CSINode has the topologyKeys [{found}], the driver says [{said}]")
            }
            Drift::Count { found, said } => write!(
                f,
                "CSINode has the allocatable.count {}, the driver says {}",
                count(found),
                count(said)
            ),
            Drift::NoLabel { key, said } => {
                write!(f, "Node lacks the label {key}={said} of the driver's topology")
            }
            Drift::Label { key, found, said } => write!(
                f,
                "Node has the label {key}={found}, the driver's topology says {said}: kubelet refuses the driver until `kubectl label node` sets or removes it"
            ),
            Drift::Annotation { found: None, .. } => {
                write!(f, "Node's annotation {NODE_IDS} does not name the driver")
            }
            Drift::Annotation { found: Some(found), said } => write!(
                f,
                "Node's annotation {NODE_IDS} has the node id {found:?}, the driver says {said:?}"
            ),
            Drift::UnreadableAnnotation => write!(
                f,
                "Node's annotation {NODE_IDS} is no JSON map: kubelet refuses every driver until `kubectl annotate node` removes it"
            ),
            Drift::Owner { node } => write!(
                f,
                "CSINode is not owned by the Node object that is there now ({node}): if registering again does not help, restart kubelet, which keeps the uid of its start"
            ),
        }
    }
}

/// Everything that the objects, as they are now, do not say as the driver does.
pub(super) fn drifts(
    facts: &DriverFacts,
    node: Option<&Node>,
    csi_node: Option<&CSINode>,
) -> Vec<Drift> {
    let Some(node) = node else {
        return vec![Drift::NoNode];
    };
    let mut found = of_csi_node(facts, node, csi_node);
    found.extend(of_annotation(facts, node));
    for (key, said) in facts.topology() {
        match node.metadata.labels.as_ref().and_then(|all| all.get(key)) {
            Some(found) if found == said => {}
            Some(found_value) => found.push(Drift::Label {
                key: key.clone(),
                found: found_value.clone(),
                said: said.clone(),
            }),
            None => found.push(Drift::NoLabel {
                key: key.clone(),
                said: said.clone(),
            }),
        }
    }
    found
}

/// The differences for which kubelet refuses a driver before it writes anything.
pub(super) fn collisions(facts: &DriverFacts, node: &Node) -> Vec<Drift> {
    let all = drifts(facts, Some(node), None);
    all.into_iter()
        .filter(|drift| drift.remedy() == Remedy::Person)
        .collect()
}

/// All of them as one sentence.
pub(super) fn sentence(drifts: &[Drift]) -> String {
    let words: Vec<_> = drifts.iter().map(Drift::to_string).collect();
    words.join("; ")
}

/// A driver's entry.
pub(super) fn entry<'a>(csi_node: &'a CSINode, driver: &str) -> Option<&'a CSINodeDriver> {
    let mut entries = csi_node.spec.drivers.iter();
    entries.find(|entry| entry.name == driver)
}

/// `allocatable.count` of an entry.
pub(super) fn count_of(entry: &CSINodeDriver) -> Option<i32> {
    entry.allocatable.as_ref().and_then(|it| it.count)
}

/// `topologyKeys` of an entry: their order means nothing.
pub(super) fn keys_of(entry: &CSINodeDriver) -> BTreeSet<&str> {
    let keys = entry.topology_keys.iter().flatten();
    keys.map(String::as_str).collect()
}

/// Whether a CSINode belongs to this very Node, not to an earlier one of its name.
pub(super) fn owned_by(csi_node: &CSINode, node: &Node) -> bool {
    let mut owners = csi_node.metadata.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.kind == "Node"
            && Some(&owner.name) == node.metadata.name.as_ref()
            && Some(&owner.uid) == node.metadata.uid.as_ref()
    })
}

fn of_csi_node(facts: &DriverFacts, node: &Node, csi_node: Option<&CSINode>) -> Vec<Drift> {
    let Some(csi_node) = csi_node else {
        return vec![Drift::NoCsiNode];
    };
    let mut found = Vec::new();
    if !owned_by(csi_node, node) {
        found.push(Drift::Owner {
            node: node.metadata.uid.clone().unwrap_or_default(),
        });
    }
    let Some(entry) = entry(csi_node, facts.driver()) else {
        found.push(Drift::NoEntry);
        return found;
    };
    if entry.node_id != facts.node_id() {
        found.push(Drift::NodeId {
            found: entry.node_id.clone(),
            said: facts.node_id().to_owned(),
        });
    }
    let (keys, said) = (keys_of(entry), facts.topology_keys());
    if keys != said {
        found.push(Drift::TopologyKeys {
            found: list(&keys),
            said: list(&said),
        });
    }
    if count_of(entry) != facts.count() {
        found.push(Drift::Count {
            found: count_of(entry),
            said: facts.count(),
        });
    }
    found
}

fn of_annotation(facts: &DriverFacts, node: &Node) -> Option<Drift> {
    let Some(mut ids) = node_ids(node) else {
        return Some(Drift::UnreadableAnnotation);
    };
    let found = ids.remove(facts.driver());
    (found.as_deref() != Some(facts.node_id())).then(|| Drift::Annotation {
        found,
        said: facts.node_id().to_owned(),
    })
}

fn list(keys: &BTreeSet<&str>) -> String {
    keys.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
