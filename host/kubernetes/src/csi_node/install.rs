//! What to write into Node and CSINode where the host does it (`--csinode manage`): kubelet's algorithm (`pkg/volume/csi/nodeinfomanager`), as the
//! next patch for an object that was read.
//!
//! It differs from kubelet where kubelet may lose changes of others: it sends patches instead of whole objects, and a CSINode of an earlier Node of
//! this name gets a new owner instead of being deleted with all of its entries.

use super::drift::{collisions, count_of, keys_of, owned_by, sentence};
use super::facts::{DriverFacts, NODE_IDS, node_ids, node_ids_text};
use crate::error::KubernetesError;
use crate::guarded_patch::GuardedPatch;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The annotation with the in-tree plugins that were replaced by CSI drivers.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// All in-tree plugins, in order: kubelet 1.36 has migrated them without condition (`csi_plugin.go`, `Init`). Scheduler and controllers treat a node
/// without this annotation as one that mounts in-tree volumes itself.
const MIGRATED: [&str; 7] = [
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
];

/// The next patch of the Node; none: nothing is missing. Rejected where a label or the annotation already has another value.
pub(super) fn next_node_patch(
    facts: &DriverFacts,
    node: &Node,
) -> Result<Option<GuardedPatch>, KubernetesError> {
    let in_the_way = collisions(facts, node);
    if !in_the_way.is_empty() {
        return Err(KubernetesError::InTheWay(sentence(&in_the_way)));
    }
    let mut patch = GuardedPatch::of_version(&node.metadata);
    let mut ids = node_ids(node).unwrap_or_default();
    let id = facts.node_id.clone();
    if ids.insert(facts.driver.clone(), id.clone()).as_ref() != Some(&id) {
        patch.annotate(&node.metadata, NODE_IDS, &node_ids_text(&ids));
    }
    let missing = facts.topology.iter();
    let missing: Vec<_> = missing
        .filter(|(key, _)| !node.labels().contains_key(*key))
        .collect();
    if node.metadata.labels.is_none() && !missing.is_empty() {
        patch.add(["metadata", "labels"], json!({}));
    }
    for (key, value) in missing {
        patch.add(["metadata", "labels", key], json!(value));
    }
    Ok(patch.if_any())
}

/// A CSINode for this Node, with the driver's entry.
pub(super) fn new_csi_node(facts: &DriverFacts, node: &Node) -> CSINode {
    let annotation = (MIGRATED_PLUGINS.to_owned(), MIGRATED.join(","));
    CSINode {
        metadata: ObjectMeta {
            name: node.metadata.name.clone(),
            annotations: Some(BTreeMap::from([annotation])),
            owner_references: node.owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: CSINodeSpec {
            drivers: vec![new_entry(facts)],
        },
    }
}

/// The next patch of CSINode; none: nothing is missing. Node id and topology keys of an entry cannot be changed (API validation), so an entry with
/// other ones is removed first, and added by the patch after that.
pub(super) fn next_csi_node_patch(
    facts: &DriverFacts,
    node: &Node,
    csi_node: &CSINode,
) -> Option<GuardedPatch> {
    let mut patch = GuardedPatch::of_version(&csi_node.metadata);
    if !owned_by(csi_node, node) {
        let others = csi_node.owner_references().iter();
        let others = others.filter(|it| it.kind != "Node").cloned();
        let owners: Vec<_> = others.chain(node.owner_ref(&())).collect();
        patch.add(["metadata", "ownerReferences"], json!(owners));
    }
    let migrated = csi_node.annotations().get(MIGRATED_PLUGINS);
    let migrated: BTreeSet<_> = migrated.iter().flat_map(|it| it.split(',')).collect();
    if migrated != BTreeSet::from(MIGRATED) {
        patch.annotate(&csi_node.metadata, MIGRATED_PLUGINS, &MIGRATED.join(","));
    }
    let drivers = &csi_node.spec.drivers;
    let mut entries = drivers.iter().enumerate();
    match entries.find(|(_, entry)| entry.name == facts.driver) {
        Some((at, entry)) => {
            let at = at.to_string();
            let keys_differ = keys_of(entry) != facts.topology_keys();
            if entry.node_id != facts.node_id || keys_differ {
                patch.remove(["spec", "drivers", &at]);
            } else if count_of(entry) != facts.count {
                let allocatable = json!(allocatable(facts));
                patch.add(["spec", "drivers", &at, "allocatable"], allocatable);
            }
        }
        // The API server returns an empty list as `null`, which has no end to append to.
        None if drivers.is_empty() => patch.add(["spec", "drivers"], json!([new_entry(facts)])),
        None => patch.add(["spec", "drivers", "-"], json!(new_entry(facts))),
    }
    patch.if_any()
}

/// Removes entries of these drivers.
pub(super) fn csi_node_without(
    csi_node: &CSINode,
    gone: &BTreeSet<String>,
) -> Option<GuardedPatch> {
    let mut patch = GuardedPatch::of_version(&csi_node.metadata);
    let entries = csi_node.spec.drivers.iter().enumerate();
    // From the end: each removal moves the entries after it.
    for (at, entry) in entries.rev() {
        if gone.contains(&entry.name) {
            patch.remove(["spec", "drivers", &at.to_string()]);
        }
    }
    patch.if_any()
}

/// Removes the node ids of these drivers; labels stay, as kubelet leaves them.
pub(super) fn node_without(node: &Node, gone: &BTreeSet<String>) -> Option<GuardedPatch> {
    let mut ids = node_ids(node)?;
    let before = ids.len();
    ids.retain(|driver, _| !gone.contains(driver));
    if ids.len() == before {
        return None;
    }
    let mut patch = GuardedPatch::of_version(&node.metadata);
    if ids.is_empty() {
        patch.remove(["metadata", "annotations", NODE_IDS]);
    } else {
        patch.annotate(&node.metadata, NODE_IDS, &node_ids_text(&ids));
    }
    patch.if_any()
}

/// Drivers with entries that this field manager created and no other one has changed since: read from the managed fields of the object, so that
/// nothing needs to be stored elsewhere.
pub(super) fn made_by(csi_node: &CSINode, manager: &str) -> BTreeSet<String> {
    let managed = csi_node.managed_fields();
    let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
    for fields in managed {
        let into = match fields.manager.as_deref() {
            Some(name) if name == manager => &mut own,
            _ => &mut others,
        };
        into.extend(entries_of(&json!(fields.fields_v1)));
    }
    own.retain(|driver| !others.contains(driver));
    own
}

/// Names in the keys of list entries, such as `k:{"name":"a.b"}`.
fn entries_of(fields: &Value) -> Vec<String> {
    let entries = fields.pointer("/f:spec/f:drivers");
    let keys = entries.and_then(Value::as_object).into_iter().flatten();
    keys.filter_map(|(key, _)| {
        let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        Some(key.get("name")?.as_str()?.to_owned())
    })
    .collect()
}

fn new_entry(facts: &DriverFacts) -> CSINodeDriver {
    let keys = facts.topology_keys();
    CSINodeDriver {
        name: facts.driver.clone(),
        node_id: facts.node_id.clone(),
        topology_keys: Some(keys.into_iter().map(str::to_owned).collect()),
        allocatable: allocatable(facts),
    }
}

fn allocatable(facts: &DriverFacts) -> Option<VolumeNodeResources> {
    let count = Some(facts.count?);
    Some(VolumeNodeResources { count })
}

#[cfg(test)]
mod tests;
