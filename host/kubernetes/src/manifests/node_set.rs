//! The node set: one DaemonSet, of host and mounter, that serves many backends on the nodes. Each backend has its controller, with its sidecars, and
//! nothing on the nodes.
//!
//! Hosts find the backends by a label of their StorageBackend objects, mounters find the grants in a directory of documents. So a backend changes the
//! DaemonSet only if it needs something of the node that no other one needs.

use super::names::{DAEMON_SET, LABEL, NODE_SET};
use super::{
    Backend, Choices, Form, Manifest, ManifestsError, NetworkPeer, check as check_any, config,
    label as label_all, templates,
};
use k8s_openapi::api::storage::v1::CSIDriver;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use wasmount_core::capabilities::Capabilities;
use wasmount_core::document::raw::KIND;
use wasmount_core::names::DriverName;

/// The objects of the node set that serves these backends. Of each the document's facts matter, and not those of its plugin.
pub fn node_set_manifests(
    backends: &[Backend],
    choices: &Choices,
) -> Result<Vec<Manifest>, ManifestsError> {
    let Some(first) = backends.first() else {
        return Ok(Vec::new());
    };
    for backend in backends {
        check_any(backend, Form::Network)?;
    }
    let union = union(backends, &first.driver);
    choices.check_monitor(&union)?;
    let values = templates::node_set_values(backends, &union, choices);
    let mut all = vec![config::documents(backends, choices)?];
    all.extend(templates::rights_and_pods(&values)?);
    label_all(&mut all, NODE_SET);
    Ok(all)
}

/// Whether the node set can serve a backend.
pub(super) fn check(backend: &Backend, form: Form) -> Result<(), ManifestsError> {
    let no = |reason| {
        let backend = backend.name.clone();
        Err(ManifestsError::NotInNodeSet { backend, reason })
    };
    if form == Form::NodeLocal {
        return no(
            "each node has sidecars of the node-local topology, and a sidecar serves one driver",
        );
    }
    if !backend.has_sidecars() {
        return no(
            "it has no sidecars, so it would have no pods of its own, and nobody would write its status",
        );
    }
    if backend.component.is_some() {
        return no(
            "its component is a file, and the pods of a node set have no files of one backend: name the component in a registry \
             (spec.plugin.reference) or in the image (--plugin-in-image)",
        );
    }
    Ok(())
}

/// Marks the StorageBackend for the hosts of the node set.
pub(super) fn label(all: &mut [Manifest]) {
    let objects = all.iter_mut().map(|it| &mut it.object);
    for object in objects.filter(|it| it.get("kind").is_some_and(|kind| kind == KIND)) {
        let labels = json!({ LABEL: DAEMON_SET });
        json_patch::merge(object, &json!({ "metadata": { "labels": labels } }));
    }
}

/// A backend that needs of a node what any of these needs. No object names its driver.
fn union(backends: &[Backend], driver: &DriverName) -> Backend {
    let any = |needs: fn(&Backend) -> bool| backends.iter().any(needs);
    let pools = backends.iter().flat_map(|it| it.pools.values());
    let pools: BTreeSet<&PathBuf> = pools.collect();
    let pools = pools.into_iter().enumerate();
    let mut network: Vec<NetworkPeer> = Vec::new();
    for peer in backends.iter().flat_map(|it| &it.network) {
        if !network.contains(peer) {
            network.push(peer.clone());
        }
    }
    Backend {
        name: NODE_SET.to_owned(),
        driver: driver.clone(),
        capabilities: Capabilities::default(),
        csi_driver: CSIDriver::default(),
        document: String::new(),
        component: None,
        files: Default::default(),
        secrets: Vec::new(),
        named_secrets: BTreeSet::new(),
        // Two backends may have pools of one name, and pools of one directory.
        pools: pools
            .map(|(at, path)| (at.to_string(), path.clone()))
            .collect(),
        mounts_from_network: any(|it| it.mounts_from_network),
        mounts_pools: any(|it| it.mounts_pools),
        network,
        uses_devices: any(|it| it.uses_devices),
        attaches_disks: any(|it| it.attaches_disks),
        uses_metadata: any(|it| it.uses_metadata),
        reads_etc: any(|it| it.reads_etc),
        reads_node_network: any(|it| it.reads_node_network),
        tells_facts: any(|it| it.tells_facts),
        registers_nodes: false,
        object: Some(Value::Null),
    }
}
