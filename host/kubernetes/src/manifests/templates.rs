//! The templates of the manifests: their values, and the rendered objects.
//!
//! Each `{{ expression }}` is a whole YAML value and is rendered as JSON, so no value of a user can end a string or add a field. Objects that a user
//! wrote are not rendered by a template.

use super::config::{CONFIG_DIR, SECRETS_DIR, secret_object};
use super::{Backend, Choices, Form, Manifest, ManifestsError, NetworkPeer, names};
use crate::csi_driver::reports_capacity;
use crate::election::lease_of;
use crate::state::DRIVER_LABEL;
use crate::storage_backend::lease;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use wasmount_core::capabilities::{ControllerCapability, PluginCapability};
use wasmount_core::node_fact::METADATA_SERVICE;

pub(super) const CLASSES: &str = include_str!("templates/classes.yaml");
pub(super) const RBAC: &str = include_str!("templates/rbac.yaml");
pub(super) const POLICIES: &str = include_str!("templates/policies.yaml");
pub(super) const NETWORK: &str = include_str!("templates/network.yaml");
pub(super) const PODS: &str = include_str!("templates/pods.yaml");

/// The sidecars, in the order of their ports.
const SIDECARS: [&str; 4] = [
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
];

/// Distance of the first sidecar's port from the host's. 100: a chart may give the host any of the next ports, as those on the network of one node need.
const SIDECAR_PORTS: u16 = 100;

const NODE: &str = "node";
const CONTROLLER: &str = "controller";

/// A rule of a role, for a template.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: [String; 1],
    resources: [String; 1],
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    verbs: Vec<String>,
    #[serde(skip_serializing)]
    why: String,
}

/// The values that all templates read. `parts` are the driver's kinds of pods; those of `sidecar_part` contain the sidecars.
pub(super) fn values(backend: &Backend, choices: &Choices) -> Value {
    let controls = |capability| backend.controls(capability);
    let node_local = choices.form == Form::NodeLocal;
    let creates = controls(ControllerCapability::CreateDeleteVolume);
    let attaches = controls(ControllerCapability::PublishUnpublishVolume);
    let modifies = controls(ControllerCapability::ModifyVolume);
    let resizes = backend.grows() || modifies;
    let snapshots = controls(ControllerCapability::CreateDeleteSnapshot);
    let snapshots_by_node = backend.snapshots_by_node(choices.form);
    let parts = match backend.has_sidecars() {
        true if choices.in_node_set => vec![CONTROLLER],
        true if !node_local => vec![NODE, CONTROLLER],
        _ => vec![NODE],
    };
    let sidecar_part = parts.last().copied().unwrap_or(NODE);
    let follows = backend.object.is_some();
    let selector = format!("app.kubernetes.io/instance={}", backend.name);

    // A sidecar that runs on every node uses leader election, if it has no mode for nodes. In a controller's pods the host itself is elected: a
    // sidecar beside a standby host waits for its Probe, and a sidecar that was elected there would be rejected endlessly. The Lease has the name
    // that the sidecar gives it (csi-lib-utils 0.24, leaderelection).
    let label = backend
        .driver
        .as_str()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let sidecars = [
        (attaches, "csi-attacher", "external-attacher-leader-"),
        (resizes, "csi-resizer", "external-resizer-"),
        (
            snapshots && !snapshots_by_node,
            "csi-snapshotter",
            "external-snapshotter-leader-",
        ),
    ];
    let elected = sidecars.iter().filter(|(runs, ..)| *runs && node_local);
    let named = |name: String, why: &str| context! { name, why };
    let mut leases = Vec::new();
    if sidecar_part == CONTROLLER {
        let why = "which controller is the leader (--leader-election)";
        leases.push(named(lease_of(&backend.driver), why));
    }
    if follows {
        let why = "which host writes the summary (--storage-backend-status)";
        leases.push(named(lease(Some(&selector)), why));
    }
    leases.extend(
        elected
            .clone()
            .map(|(_, _, prefix)| named(format!("{prefix}{label}"), "elections of sidecars")),
    );

    // The host reads an object's secrets from the API server; secrets of a file are mounted.
    let read_secrets: Vec<_> = secrets(backend).filter(|_| follows).collect();
    let pools = backend.pools.iter().filter(|(_, path)| path.is_absolute());
    let pools = pools.map(|(pool, path)| {
        context! { volume => format!("pool-{pool}"), path => path.display().to_string() }
    });
    let host_network = choices.on_node_network(backend);
    let controller_mounts = sidecar_part == CONTROLLER && backend.mounts_pools;
    // A policy does not apply to pods on the network of their node.
    let isolated = parts.iter().filter(|part| match **part {
        NODE => !host_network,
        _ => !controller_mounts,
    });
    let network = isolated.map(|part| {
        let is_used = |peer: &&NetworkPeer| match *part {
            _ if node_local => true,
            NODE => peer.node,
            _ => peer.controller,
        };
        let peers = backend.network.iter().filter(is_used);
        let peers = peers.map(|peer| context! { port => peer.port, ranges => peer.ranges.clone() });
        context! {
            part => *part,
            peers => peers.collect::<Vec<_>>(),
            metadata_port => METADATA_SERVICE.port(),
            metadata_range => (*part == NODE && backend.uses_metadata)
                .then(|| format!("{}/32", METADATA_SERVICE.ip())),
        }
    });
    let network: Vec<_> = network.filter(|_| !backend.network.is_empty()).collect();
    let offline = PluginCapability::VolumeExpansionOffline;
    let expands_offline = backend.capabilities.plugin.contains(&offline);
    let kubelet_dir = kubelet_dir(choices);
    context! {
        node_set => false,
        whose => format!("the backend {}", backend.name),
        served => served(std::slice::from_ref(backend)),
        config_map => format!("wasmount-{}-backend", backend.name),
        documents => format!("--backend={CONFIG_DIR}/backend.yaml"),
        socket_dir => format!("{kubelet_dir}/plugins"),
        own_sockets => format!("{kubelet_dir}/plugins/{}", backend.driver),
        name => backend.name.as_str(),
        prefix => format!("wasmount-{}", backend.name),
        driver => backend.driver.as_str(),
        namespace => choices.namespace.as_str(),
        image => choices.image.as_str(),
        sidecar_registry => choices.sidecar_registry.as_str(),
        fs_type => choices.fs_type.as_str(),
        kubelet_dir,
        health_address => match choices.health_address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        },
        // kubelet is on the node as well.
        probed_address => match choices.health_address {
            address if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            address => address.to_string(),
        },
        shows_metrics => !choices.health_address.is_loopback(),
        health_port => choices.health_port,
        // Pods of nodes and of the controller share the ports of a node, if both are on its network.
        controller_health_port => match controller_mounts {
            true => port_beside(choices.health_port, 1),
            false => choices.health_port,
        },
        sidecar_ports => sidecar_ports(choices.health_port),
        pod_monitor => choices.pod_monitor,
        host_network,
        controller_mounts,
        network,
        config_dir => CONFIG_DIR,
        secrets_dir => SECRETS_DIR,
        record_label => DRIVER_LABEL,
        node_local,
        parts,
        sidecar_part,
        follows,
        selector,
        creates,
        attaches,
        modifies,
        resizes,
        snapshots,
        snapshots_by_node,
        grows => backend.grows(),
        groups => backend.groups() && !snapshots_by_node,
        topology => backend.has_topology(),
        capacity => reports_capacity(&backend.capabilities),
        expands_offline,
        publishes_readonly => controls(ControllerCapability::PublishReadonly),
        elected => elected.map(|(_, name, _)| *name).collect::<Vec<_>>(),
        leases,
        mounts_secrets => !backend.secrets.is_empty() && !follows,
        read_secrets,
        pools => pools.collect::<Vec<_>>(),
        has_pools => !backend.pools.is_empty(),
        attaches_disks => backend.attaches_disks,
        devices => backend.needs_devices(),
        reads_etc => backend.reads_etc,
        tells => backend.tells_facts && !node_local,
        registers => backend.registers_nodes && !node_local,
    }
}

/// The values of the node set: those of a backend that needs what any of these backends needs, and has no sidecars.
pub(super) fn node_set_values(backends: &[Backend], union: &Backend, choices: &Choices) -> Value {
    let sockets = format!("{}/plugins/{}", kubelet_dir(choices), names::SOCKETS);
    let read_secrets: BTreeSet<_> = backends.iter().flat_map(secrets).collect();
    context! {
        node_set => true,
        whose => "the node set",
        served => served(backends),
        config_map => names::CONFIG_MAP,
        documents => format!("--backend-dir={CONFIG_DIR}"),
        socket_dir => &sockets,
        own_sockets => &sockets,
        prefix => "wasmount",
        // Each backend has them in pods of its own, and with them what one host does for all.
        sidecar_part => "none",
        leases => Vec::<String>::new(),
        selector => format!("{}={}", names::LABEL, names::DAEMON_SET),
        read_secrets,
        ..values(union, choices)
    }
}

/// The backends that pods serve.
fn served(backends: &[Backend]) -> Vec<Value> {
    let each = backends.iter().map(|it| {
        context! {
            name => it.name.as_str(),
            driver => it.driver.as_str(),
            tells => it.tells_facts,
        }
    });
    each.collect()
}

/// The Secrets in the pods' namespace that a backend has.
fn secrets(backend: &Backend) -> impl Iterator<Item = String> {
    let own = (!backend.secrets.is_empty()).then(|| secret_object(&backend.name));
    own.into_iter().chain(backend.named_secrets.clone())
}

fn kubelet_dir(choices: &Choices) -> String {
    let path = choices.kubelet_dir.display().to_string();
    path.trim_end_matches('/').to_owned()
}

/// The ports of the sidecars' metrics, beside the host's in the same pod.
fn sidecar_ports(port: u16) -> BTreeMap<&'static str, u16> {
    let numbered = SIDECARS.into_iter().zip(SIDECAR_PORTS..);
    let ports = numbered.map(|(name, number)| (name, port_beside(port, number)));
    ports.collect()
}

fn port_beside(port: u16, distance: u16) -> u16 {
    port.checked_add(distance)
        .unwrap_or(port.saturating_sub(distance))
}

/// Accounts with their rights, policies and workloads.
pub(super) fn rights_and_pods(values: &Value) -> Result<Vec<Manifest>, ManifestsError> {
    let mut all = Vec::new();
    for template in [RBAC, POLICIES, NETWORK, PODS] {
        all.extend(objects(template, values)?);
    }
    Ok(all)
}

/// The objects that a template renders with these values.
pub(super) fn objects(template: &str, values: &Value) -> Result<Vec<Manifest>, ManifestsError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Json);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let text = environment
        .render_str(template, values)
        .map_err(|error| ManifestsError::Template(error.to_string()))?;
    // No value contains a line break: JSON escapes them.
    let documents = text.split("---\n").skip(1);
    documents.map(object).collect()
}

fn object(document: &str) -> Result<Manifest, ManifestsError> {
    let lines = document.lines().filter(|line| !line.is_empty());
    let comment = lines.map_while(|line| line.strip_prefix("# "));
    let mut comment = comment.collect::<Vec<_>>().join(" ");
    let mut object: serde_json::Value = serde_saphyr::from_str(document)
        .map_err(|error| ManifestsError::Template(error.to_string()))?;
    if let Some(rules) = object.get_mut("rules") {
        let merged = merged(serde_json::from_value(rules.take())?);
        let reasons = merged
            .iter()
            .map(|rule| format!("{}: {}", rule.resources.concat(), rule.why));
        comment = reasons.collect::<Vec<_>>().join("\n");
        *rules = serde_json::to_value(merged)?;
    }
    Ok(Manifest { comment, object })
}

/// Merges rules for the same objects into one, with all verbs and reasons.
fn merged(rules: Vec<Rule>) -> Vec<Rule> {
    let mut merged: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = merged.iter_mut().find(|other| {
            (&other.api_groups, &other.resources, &other.resource_names)
                == (&rule.api_groups, &rule.resources, &rule.resource_names)
        });
        let Some(other) = same else {
            merged.push(rule);
            continue;
        };
        for verb in rule.verbs {
            if !other.verbs.contains(&verb) {
                other.verbs.push(verb);
            }
        }
        if !other.why.contains(&rule.why) {
            other.why = format!("{}; {}", other.why, rule.why);
        }
    }
    merged
}
