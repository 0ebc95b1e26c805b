//! `spec.grants` on disk.

#[cfg(feature = "schema")]
use super::rules::{self, EXACT, OPTION, PORTALS, START, TEXT};
use super::{Amount, Endpoint};
#[cfg(feature = "schema")]
use crate::document::SealingGrant;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the plugin may use. Absent means denied.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grants {
    /// Pools by name.
    #[cfg_attr(feature = "schema", schemars(extend("maxProperties" = super::PARTS_MAX)))]
    pub pools: BTreeMap<String, Pool>,
    /// File systems that the kernel mounts by name.
    #[cfg_attr(feature = "schema", schemars(length(max = 64), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"],
    )))]
    pub filesystems: Vec<Filesystem>,
    /// Block devices of the node.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub devices: Vec<Device>,
    /// Disks of storage systems that the mounter may attach for the plugin.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub attach: Vec<Attach>,
    /// Storage systems that the plugin may send requests to, by the names that it gives them.
    #[cfg_attr(feature = "schema", schemars(extend("maxProperties" = super::PARTS_MAX)))]
    pub network: BTreeMap<String, Endpoint>,
    /// Facts of the node that the node service of the plugin may read.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::node_facts"))]
    pub node_facts: Vec<String>,
    /// Facts of every node that the controller service of the plugin may read. Hosts of nodes tell them to the controller by the API server.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::node_facts"))]
    pub nodes: Vec<String>,
    /// Lets the controller service of the plugin seal secrets for the contexts of volumes, and the node service have them opened.
    pub sealing: Option<Sealing>,
}

/// A directory or an export whose trees and images the plugin may use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("has(self.path) != has(self.mount)", "needs `path` or `mount`, and not both"),
    ("!has(self.mount) || !has(self.mountOptions) || self.mountOptions.size() == 0", "no volume is staged from such a pool; grant options in `filesystems`"),
]))))]
pub struct Pool {
    /// A full path, or relative to the data directory of the host, which is then another directory on each node.
    #[cfg_attr(feature = "schema", schemars(length(max = 4095), regex(pattern = TEXT), extend("x-kubernetes-validations" = rules::rules([
        ("!self.split('/').exists(part, part == '..')", "must not contain `..`"),
        ("self.split('/').exists(part, part != '' && part != '.')", "must be a directory for the pool alone"),
    ]))))]
    pub path: Option<String>,
    /// A file system that the host mounts itself, instead of a path.
    pub mount: Option<PoolMount>,
    /// Clones may copy all data where the file system cannot share blocks.
    #[serde(default)]
    pub full_copies: bool,
    /// Mount options beyond the harmless ones, such as `suid` or `dev`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(inner(regex(pattern = OPTION))))]
    pub mount_options: Vec<String>,
}

/// The file system of a pool that the host mounts itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolMount {
    /// `nfs4`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = crate::document::PoolMount::TYPES)))]
    pub fs_type: String,
    /// Such as `nas.example.com:/export`; no pattern.
    #[cfg_attr(feature = "schema", schemars(length(max = 255), regex(pattern = EXACT)))]
    pub source: String,
    /// Mount options.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 64), inner(regex(pattern = OPTION))))]
    pub options: Vec<String>,
}

/// A type of file system that the plugin may mount.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("self.type != 'tmpfs' || !has(self.sources) || self.sources.size() == 0", "a tmpfs has no source; remove `sources`"),
    ("self.type == 'tmpfs' || (has(self.sources) && self.sources.size() > 0)", "grants nothing; name sources, such as `server:/export/*`"),
    ("self.type == 'tmpfs' || !has(self.maxBytes)", "only a tmpfs can be bounded by the host"),
]))))]
pub struct Filesystem {
    /// Such as `nfs4`; `tmpfs` for the step of that name.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = TEXT)))]
    pub fs_type: String,
    /// Sources: exact, or with a `*` at the end.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(inner(regex(pattern = START))))]
    pub sources: Vec<String>,
    /// Mount options beyond the harmless ones.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(inner(regex(pattern = OPTION))))]
    pub mount_options: Vec<String>,
    /// Largest size in bytes, for `tmpfs`.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::bytes"))]
    #[serde(default)]
    pub max_bytes: Option<Amount>,
}

/// Block devices that the plugin may use: those of which all facts hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// Fact and value: exact, or with a `*` at the end. One at least must tell devices apart.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::facts"))]
    pub facts: BTreeMap<String, String>,
    /// Whether a plan may have the SCSI hosts of the node look for new disks while such a device is missing.
    #[serde(default)]
    pub rescan: bool,
    /// Mount options beyond the harmless ones.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(inner(regex(pattern = OPTION))))]
    pub mount_options: Vec<String>,
}

/// Disks of a storage system that the mounter may attach for the plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-validations" = rules::rules([
    ("self.protocol != 'iscsi' || (has(self.portals) && has(self.targets) && !has(self.addresses) && !has(self.subsystems) && !has(self.monitors) && !has(self.pools))", "`iscsi` needs `portals` and `targets`, and has no other names"),
    ("self.protocol != 'nvme-tcp' || (has(self.addresses) && has(self.subsystems) && !has(self.portals) && !has(self.targets) && !has(self.monitors) && !has(self.pools))", "`nvme-tcp` needs `addresses` and `subsystems`, and has no other names"),
    ("self.protocol != 'rbd' || (has(self.monitors) && has(self.pools) && !has(self.portals) && !has(self.targets) && !has(self.addresses) && !has(self.subsystems))", "`rbd` needs `monitors` and `pools`, and has no other names"),
]))))]
pub struct Attach {
    /// `iscsi`, `nvme-tcp` or `rbd`.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::attach_protocols"))]
    pub protocol: String,
    /// For `iscsi`: addresses or ranges with a port, such as `10.1.1.0/24:3260`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64), inner(regex(pattern = PORTALS))))]
    pub portals: Vec<String>,
    /// For `iscsi`: names of targets: exact, or with a `*` at the end.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64), inner(regex(pattern = START))))]
    pub targets: Vec<String>,
    /// For `nvme-tcp`: addresses or ranges with a port, such as `10.1.2.0/24:4420`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64), inner(regex(pattern = PORTALS))))]
    pub addresses: Vec<String>,
    /// For `nvme-tcp`: names of subsystems: exact, or with a `*` at the end.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64), inner(regex(pattern = START))))]
    pub subsystems: Vec<String>,
    /// For `rbd`: addresses or ranges with a port, such as `10.1.3.0/24:6789`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64), inner(regex(pattern = PORTALS))))]
    pub monitors: Vec<String>,
    /// For `rbd`: pools, or pools with a namespace (`kubernetes/tenant`): exact, or with a `*` at the end.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64), inner(regex(pattern = START))))]
    pub pools: Vec<String>,
    /// Mount options beyond the harmless ones.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(inner(regex(pattern = OPTION))))]
    pub mount_options: Vec<String>,
}

/// The secrets from which the host derives the keys of sealed texts: names of `spec.secrets`, each with at least 32 bytes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sealing {
    /// For sealing and for opening.
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = TEXT)))]
    pub secret: String,
    /// For opening alone: those that `secret` replaced.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = SealingGrant::PREVIOUS_SECRETS), inner(length(max = 253), regex(pattern = TEXT))))]
    pub previous_secrets: Vec<String>,
}
