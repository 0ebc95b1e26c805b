//! The shape of a `StorageBackend` document on disk, key by key, and nothing else.
//!
//! This module knows neither YAML nor the valid values: amounts are kept as written.

mod grants;
mod limits;
mod network;
mod plugin;
mod rollout;
#[cfg(feature = "schema")]
mod rules;

pub use grants::{Attach, Device, Filesystem, Grants, Pool, PoolMount, Sealing};
pub use limits::{Amount, Limits, Rollback, Versions};
pub use network::{
    Auth, Basic, Bearer, Endpoint, Give, Header, HostFrom, Jwt, Login, Logout, Rate, Renew,
    RenewJson, SecretText, Session, Take, Timeouts, Tls,
};
pub use plugin::{Plugin, RegistryAccess, Secret, SecretKey, Verify, VerifyKey};
pub use rollout::{LABELS_MAX, NodeSelector, Rollout, RolloutStep, STEPS_MAX};

use super::csi_driver::CsiDriver;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The API version that this host reads.
pub const API_VERSION: &str = "wasmount.io/v1alpha1";
/// The kind that this host reads.
pub const KIND: &str = "StorageBackend";
/// Most pools, file systems, devices, entries of `attach` and secrets of a document, each: a longer list is generated, not written by a person. The API server can only
/// estimate the cost of a rule if lists are bounded.
pub const PARTS_MAX: usize = 64;

/// The document.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Document {
    pub api_version: String,
    pub kind: String,
    pub metadata: Metadata,
    pub spec: Spec,
}

/// Of Kubernetes' metadata what a local file can mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are the document's keys")]
pub struct Metadata {
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// One storage backend: a WebAssembly component, served as a CSI driver.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    /// Name of the CSI driver. It cannot change: volumes, CSIDriver and StorageClasses are bound to it.
    #[cfg_attr(feature = "schema", schemars(length(max = 63), regex(pattern = rules::DRIVER_NAME), extend("x-kubernetes-validations" = rules::rules([
        ("self == oldSelf", "cannot change: volumes are bound to it; make another StorageBackend"),
    ]))))]
    pub driver_name: String,
    /// Where the component comes from.
    pub plugin: Plugin,
    /// Settings that the plugin reads; it defines their keys.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Secrets of the backend, by name: where each is read.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("maxProperties" = PARTS_MAX)))]
    pub secrets: BTreeMap<String, Secret>,
    /// What the plugin may use. Absent means denied.
    #[serde(default)]
    pub grants: Grants,
    /// How much the plugin may use.
    #[serde(default)]
    pub limits: Limits,
    /// How versions follow one another.
    #[serde(default)]
    pub versions: Versions,
    /// How a change of an object reaches the hosts; all at once by default.
    pub rollout: Option<Rollout>,
    /// What is served otherwise than the plugin offers it.
    #[serde(default)]
    pub csi: Csi,
    /// What the CSIDriver object says beyond what the exports of the plugin tell.
    #[serde(default)]
    pub csi_driver: CsiDriver,
}

/// What is served otherwise than the plugin offers it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Csi {
    /// Capabilities that are neither advertised nor served, by CSI's names.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::capabilities"))]
    pub hide_capabilities: Vec<String>,
}
