//! `wasmount manifests`: the objects that a backend needs in a cluster, from facts of the backend and the administrator's choices.
//!
//! Most are rendered from the templates below (`templates`). It opens no file, sends no request, and never sees a secret's value.

mod config;
mod names;
mod network;
mod node_set;
mod shared;
mod templates;
mod yaml;

pub use config::{
    CERTIFICATES_IN_CONFIG, CONFIG_MAP_BYTES, PLUGIN_IN_CONFIG, path_in_config, secret_object,
    secret_path,
};
pub use network::{NetworkPeer, network_peers};
pub use node_set::node_set_manifests;
pub use shared::{definition_manifests, shared_manifests};
pub use yaml::to_yaml;

use k8s_openapi::api::storage::v1::CSIDriver;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use wasmount_core::capabilities::{
    Capabilities, ControllerCapability, GroupCapability, NodeCapability, PluginCapability,
};
use wasmount_core::names::DriverName;

/// Longest name of a backend, in bytes: with prefix and suffix it is still a valid label value (63 bytes).
const NAME_BYTES: usize = 40;

/// The facts of a backend that its manifests depend on.
#[derive(Debug, Clone)]
pub struct Backend {
    /// `metadata.name` of the document.
    pub name: String,
    /// The driver.
    pub driver: DriverName,
    /// What it advertises when all services are served.
    pub capabilities: Capabilities,
    /// Its CSIDriver object.
    pub csi_driver: CSIDriver,
    /// The document, with the paths that it has in the pod.
    pub document: String,
    /// The component, in the ConfigMap beside the document; none: the document names its path in the image, or a registry.
    pub component: Option<Vec<u8>>,
    /// Files beside the document in the ConfigMap: signatures of the component, certificates of its registry.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Names of its secrets that are stored in one Secret.
    pub secrets: Vec<String>,
    /// Secrets in the pods' namespace that the document itself names.
    pub named_secrets: BTreeSet<String>,
    /// Its pools by name, with the document's paths.
    pub pools: BTreeMap<String, PathBuf>,
    /// It may mount network file systems, which belong to the network namespace of the process that mounts them.
    pub mounts_from_network: bool,
    /// The host mounts some of its pools itself, so that its controller mounts as well.
    pub mounts_pools: bool,
    /// What its network grants name; empty: its pods get no NetworkPolicy.
    pub network: Vec<NetworkPeer>,
    /// It may use block devices, or the node reads facts of itself from one.
    pub uses_devices: bool,
    /// Its mounter attaches disks of storage systems, by programs of the node.
    pub attaches_disks: bool,
    /// The node asks OpenStack's metadata service for facts of itself.
    pub uses_metadata: bool,
    /// The node reads facts of itself below its `/etc`.
    pub reads_etc: bool,
    /// The node reads facts of itself that only its network namespace shows.
    pub reads_node_network: bool,
    /// The controller reads facts of all nodes, which their hosts tell it.
    pub tells_facts: bool,
    /// It exports `node-register`: the controller follows all nodes.
    pub registers_nodes: bool,
    /// The document as an object, if hosts follow the object; then the document in the pods is the mounter's only.
    pub object: Option<Value>,
}

/// The form of the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Volumes are on the node that created them: each node runs controller and node service.
    NodeLocal,
    /// Volumes are reached from every node: a controller for all, a node service on each.
    Network,
}

/// The choices of the administrator.
#[derive(Debug, Clone)]
pub struct Choices {
    /// The form.
    pub form: Form,
    /// The namespace of pods and their service accounts.
    pub namespace: String,
    /// Image of Wasmount.
    pub image: String,
    /// The registry of the sidecars' images.
    pub sidecar_registry: String,
    /// File system of volumes for which the claim names none.
    pub fs_type: String,
    /// kubelet's root on the nodes.
    pub kubelet_dir: PathBuf,
    /// Port of the health checks; of a controller on the network of its node it is the next one.
    pub health_port: u16,
    /// Where pods on the network of their node answer health checks and metrics.
    pub health_address: IpAddr,
    /// The node pods use the node's network, whatever the backend mounts.
    pub host_network: bool,
    /// A PodMonitor of the Prometheus operator is printed.
    pub pod_monitor: bool,
    /// The node set serves the backend on the nodes, so that it has no pods there.
    pub in_node_set: bool,
}

/// One object, and a comment about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Printed above it.
    pub comment: String,
    /// The object.
    pub object: Value,
}

/// Why no manifests can be rendered.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ManifestsError {
    #[error(
        "metadata.name `{name}` must be at most {NAME_BYTES} lower-case letters, digits and `-` here, and not `{}`, the name of the node set: objects and labels are named by it",
        names::NODE_SET
    )]
    Name { name: String },
    #[error(
        "document, component and what lies beside them have {bytes} bytes, and a ConfigMap holds {CONFIG_MAP_BYTES}: build an image with the component and name its \
         path there by --plugin-in-image"
    )]
    TooLarge { bytes: usize },
    #[error(
        "the pool `{pool}` has a relative path, which is another directory on each node: name a directory that all nodes share, or choose \
         --topology node-local"
    )]
    PoolOfOneNode { pool: String },
    #[error(
        "the backend `{backend}` cannot be in the node set: {reason}. Print it without --in-node-set, with a DaemonSet of its own"
    )]
    NotInNodeSet {
        backend: String,
        reason: &'static str,
    },
    #[error(
        "the documents of the node set have {bytes} bytes, and a ConfigMap holds {CONFIG_MAP_BYTES}: leave out a backend, and print it without --in-node-set"
    )]
    TooManyDocuments { bytes: usize },
    #[error(
        "--pod-monitor: pods of the backend `{backend}` are on the network of their node, where Prometheus does not reach {address}: choose \
         --health-address, such as 0.0.0.0, which shows metrics to whoever reaches the node"
    )]
    UnreachableMetrics { backend: String, address: IpAddr },
    #[error("a template of the manifests cannot be filled in: {0}")]
    Template(String),
    #[error("an object cannot be serialised")]
    Unwritten(#[from] serde_json::Error),
}

impl Manifest {
    fn new(comment: impl Into<String>, object: &impl Serialize) -> Result<Self, ManifestsError> {
        Ok(Self {
            comment: comment.into(),
            object: serde_json::to_value(object)?,
        })
    }
}

impl Backend {
    fn controls(&self, capability: ControllerCapability) -> bool {
        self.capabilities.controller.contains(&capability)
    }

    fn has_topology(&self) -> bool {
        self.capabilities
            .plugin
            .contains(&PluginCapability::VolumeAccessibilityConstraints)
    }

    fn grows(&self) -> bool {
        self.controls(ControllerCapability::CreateDeleteVolume)
            && self
                .capabilities
                .node
                .contains(&NodeCapability::ExpandVolume)
    }

    fn groups(&self) -> bool {
        self.controls(ControllerCapability::CreateDeleteSnapshot)
            && self
                .capabilities
                .group
                .contains(&GroupCapability::CreateDeleteGetVolumeGroupSnapshot)
    }

    fn has_sidecars(&self) -> bool {
        let asked_for = [
            ControllerCapability::CreateDeleteVolume,
            ControllerCapability::PublishUnpublishVolume,
            ControllerCapability::CreateDeleteSnapshot,
            ControllerCapability::ModifyVolume,
        ];
        asked_for.iter().any(|it| self.controls(*it)) || self.grows()
    }

    /// Each node's snapshotter handles the snapshots of that node, which follows from the topology of the volume.
    fn snapshots_by_node(&self, form: Form) -> bool {
        form == Form::NodeLocal
            && self.has_topology()
            && self.controls(ControllerCapability::CreateDeleteSnapshot)
    }

    /// It mounts a file system, or a loop device below one, on the node itself.
    fn needs_devices(&self) -> bool {
        self.uses_devices || !self.pools.is_empty()
    }
}

impl Choices {
    /// Whether the node pods use the node's network.
    fn on_node_network(&self, backend: &Backend) -> bool {
        self.host_network || backend.mounts_from_network || backend.reads_node_network
    }

    fn check_monitor(&self, backend: &Backend) -> Result<(), ManifestsError> {
        let is_hidden = match self.in_node_set {
            true => backend.mounts_pools,
            false => self.on_node_network(backend),
        };
        if self.pod_monitor && is_hidden && self.health_address.is_loopback() {
            return Err(ManifestsError::UnreachableMetrics {
                backend: backend.name.clone(),
                address: self.health_address,
            });
        }
        Ok(())
    }
}

/// All objects of one backend; objects that others refer to are first.
pub fn manifests(backend: &Backend, choices: &Choices) -> Result<Vec<Manifest>, ManifestsError> {
    check(backend, choices.form)?;
    choices.check_monitor(backend)?;
    if choices.in_node_set {
        node_set::check(backend, choices.form)?;
    }
    let values = templates::values(backend, choices);
    let mut all = vec![config::driver_object(backend)?];
    all.extend(templates::objects(templates::CLASSES, &values)?);
    all.push(config::config_map(backend, choices)?);
    if let Some(object) = &backend.object {
        all.push(config::followed(object)?);
    }
    all.extend(templates::rights_and_pods(&values)?);
    label(&mut all, &backend.name);
    if choices.in_node_set {
        node_set::label(&mut all);
    }
    Ok(all)
}

/// Whether objects can be named by a backend, and whether its pools are where its pods are.
fn check(backend: &Backend, form: Form) -> Result<(), ManifestsError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &backend.name;
    let is_taken = name == names::NODE_SET;
    if is_taken || name.len() > NAME_BYTES || !name.chars().all(allowed) {
        return Err(ManifestsError::Name { name: name.clone() });
    }
    if form == Form::Network {
        let relative = backend.pools.iter().find(|(_, path)| path.is_relative());
        if let Some((pool, _)) = relative {
            return Err(ManifestsError::PoolOfOneNode { pool: pool.clone() });
        }
    }
    Ok(())
}

/// Labels all objects of one backend, or of the node set.
fn label(all: &mut [Manifest], instance: &str) {
    let labels = json!({
        "app.kubernetes.io/name": "wasmount",
        "app.kubernetes.io/instance": instance,
    });
    for Manifest { object, .. } in all {
        json_patch::merge(object, &json!({ "metadata": { "labels": labels } }));
    }
}

/// Sentences about behaviour that an administrator may not expect.
pub fn warnings(backend: &Backend, choices: &Choices) -> Vec<String> {
    let mut warnings = Vec::new();
    if choices.form == Form::NodeLocal {
        if !backend.has_topology() && backend.controls(ControllerCapability::CreateDeleteVolume) {
            warnings.push(
                "the plugin has no topology, so Kubernetes does not know on which node a volume lies: use it with one node only".to_owned(),
            );
        }
        let of_one_node = [
            (ControllerCapability::PublishUnpublishVolume, "attached"),
            (
                ControllerCapability::ExpandVolume,
                "grown by the controller",
            ),
            (ControllerCapability::ModifyVolume, "modified"),
        ];
        for (capability, done) in of_one_node {
            if backend.controls(capability) {
                warnings.push(format!(
                    "volumes are {done} ({}) by the node whose sidecar leads, which knows its own volumes only: with more than one node, \
                     hide that capability in the document (csi.hideCapabilities) or export a node's form of it",
                    capability.name()
                ));
            }
        }
    }
    // csi-snapshotter lists their objects by the label of a node, which no controller sets on them (external-snapshotter 8.6,
    // cmd/csi-snapshotter/main.go and groupsnapshot_controller_helper.go).
    if backend.groups() && backend.snapshots_by_node(choices.form) {
        warnings.push(
            "groups of snapshots cannot be requested: csi-snapshotter has no form for nodes that finds their objects"
                .to_owned(),
        );
    }
    if !backend.secrets.is_empty() {
        warnings.push(format!(
            "the Secret {} with the keys {} must be made in the namespace {} first",
            secret_object(&backend.name),
            backend.secrets.join(", "),
            choices.namespace
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
