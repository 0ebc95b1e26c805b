//! The differences between Node and CSINode and what a driver reports.

use super::facts::{DriverFacts, NODE_IDS, node_ids};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver};
use kube::ResourceExt;
use std::collections::BTreeSet;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drift {
    pub(super) remedy: Remedy,
    /// A description for people.
    pub(super) text: String,
}

/// What resolves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The writer of CSINode, when it writes again.
    Rewrite,
    /// The same, and it may do so without being triggered, after its period (`nodeAllocatableUpdatePeriodSeconds`).
    Refresh,
    /// A person: kubelet would reject the driver and remove its entry.
    Person,
}

impl Drift {
    pub(super) fn new(remedy: Remedy, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { remedy, text }
    }
}

/// All differences between the current objects and what the driver reports.
pub(super) fn drifts(
    facts: &DriverFacts,
    node: Option<&Node>,
    csi_node: Option<&CSINode>,
) -> Vec<Drift> {
    let Some(node) = node else {
        return vec![Drift::new(
            Remedy::Person,
            "there is no Node object of this name: is kubelet registered, and --node-name its name?",
        )];
    };
    let mut found = of_csi_node(facts, node, csi_node);
    found.extend(of_annotation(facts, node));
    for (key, expected) in &facts.topology {
        match node.labels().get(key) {
            Some(value) if value == expected => {}
            Some(value) => found.push(Drift::new(
                Remedy::Person,
                format!(
                    "Node has the label {key}={value}, the driver's topology says {expected}: kubelet refuses the driver until `kubectl label node` \
                     sets or removes it"
                ),
            )),
            None => found.push(Drift::new(
                Remedy::Rewrite,
                format!("Node lacks the label {key}={expected} of the driver's topology"),
            )),
        }
    }
    found
}

/// The differences for which kubelet rejects a driver before it writes anything.
pub(super) fn collisions(facts: &DriverFacts, node: &Node) -> Vec<Drift> {
    let mut found = drifts(facts, Some(node), None);
    found.retain(|drift| drift.remedy == Remedy::Person);
    found
}

/// All differences as one sentence.
pub(super) fn sentence(drifts: &[Drift]) -> String {
    let texts: Vec<_> = drifts.iter().map(|it| it.text.as_str()).collect();
    texts.join("; ")
}

/// `allocatable.count` of an entry.
pub(super) fn count_of(entry: &CSINodeDriver) -> Option<i32> {
    entry.allocatable.as_ref().and_then(|it| it.count)
}

/// `topologyKeys` of an entry: their order has no meaning.
pub(super) fn keys_of(entry: &CSINodeDriver) -> BTreeSet<&str> {
    let keys = entry.topology_keys.iter().flatten();
    keys.map(String::as_str).collect()
}

/// Whether a CSINode belongs to this Node, not to an earlier one of the same name.
pub(super) fn owned_by(csi_node: &CSINode, node: &Node) -> bool {
    let mut owners = csi_node.owner_references().iter();
    owners.any(|owner| {
        owner.kind == "Node"
            && Some(&owner.name) == node.metadata.name.as_ref()
            && Some(&owner.uid) == node.metadata.uid.as_ref()
    })
}

fn of_csi_node(facts: &DriverFacts, node: &Node, csi_node: Option<&CSINode>) -> Vec<Drift> {
    let rewrite = |text: String| Drift::new(Remedy::Rewrite, text);
    let Some(csi_node) = csi_node else {
        return vec![rewrite(
            "there is no CSINode object of this node".to_owned(),
        )];
    };
    let mut found = Vec::new();
    if !owned_by(csi_node, node) {
        let uid = node.metadata.uid.as_deref().unwrap_or_default();
        found.push(rewrite(format!(
            "CSINode is not owned by the Node object that is there now ({uid}): if registering again does not help, restart kubelet, which keeps \
             the uid of its start"
        )));
    }
    let mut entries = csi_node.spec.drivers.iter();
    let Some(entry) = entries.find(|entry| entry.name == facts.driver) else {
        found.push(rewrite("CSINode does not list the driver".to_owned()));
        return found;
    };
    let (id, expected) = (&entry.node_id, &facts.node_id);
    if id != expected {
        found.push(rewrite(format!(
            "CSINode has the nodeID {id:?}, the driver says {expected:?}"
        )));
    }
    let (keys, expected) = (keys_of(entry), facts.topology_keys());
    if keys != expected {
        let (keys, expected) = (list(&keys), list(&expected));
        found.push(rewrite(format!(
            "CSINode has the topologyKeys [{keys}], the driver says [{expected}]"
        )));
    }
    if count_of(entry) != facts.count {
        let count = |count: Option<i32>| count.map_or("none".to_owned(), |it| it.to_string());
        let (count, expected) = (count(count_of(entry)), count(facts.count));
        found.push(Drift::new(
            Remedy::Refresh,
            format!("CSINode has the allocatable.count {count}, the driver says {expected}"),
        ));
    }
    found
}

fn of_annotation(facts: &DriverFacts, node: &Node) -> Option<Drift> {
    let expected = &facts.node_id;
    let Some(mut ids) = node_ids(node) else {
        return Some(Drift::new(
            Remedy::Person,
            format!(
                "Node's annotation {NODE_IDS} is no JSON map: kubelet refuses every driver until `kubectl annotate node` removes it"
            ),
        ));
    };
    let text = match ids.remove(&facts.driver) {
        Some(found) if found == *expected => return None,
        Some(found) => {
            format!(
                "Node's annotation {NODE_IDS} has the node id {found:?}, the driver says {expected:?}"
            )
        }
        None => format!("Node's annotation {NODE_IDS} does not name the driver"),
    };
    Some(Drift::new(Remedy::Rewrite, text))
}

fn list(keys: &BTreeSet<&str>) -> String {
    keys.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
