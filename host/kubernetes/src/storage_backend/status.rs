//! The `status` of a StorageBackend object.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    /// The version of the plugin that most hosts serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// The first digits of its digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// `2/3`.
    pub(super) ready: String,
    pub(super) hosts: Hosts,
    pub(super) phases: BTreeMap<String, u64>,
    pub(super) versions: Vec<Version>,
    pub(super) troubled: Vec<Troubled>,
    pub(super) conditions: Vec<Condition>,
}

/// Numbers of hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Hosts {
    pub(super) total: u64,
    pub(super) current: u64,
}

/// A version that serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Version {
    pub(super) digest: String,
    pub(super) version: String,
    pub(super) hosts: u64,
}

/// A host with a problem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Troubled {
    pub(super) host: String,
    pub(super) phase: String,
    pub(super) reason: String,
}

/// One condition (Kubernetes API conventions, "Typical status properties").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) observed_generation: i64,
    pub(super) last_transition_time: Timestamp,
}
