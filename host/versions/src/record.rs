//! A version as it is told of: to administrators, in statuses, and across restarts.

use crate::desired::Origin;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// A version of a backend: code, settings, secrets, grants and limits together. It never changes; what became of it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRecord {
    /// Grows by one with each version of the backend, and is never used again.
    pub number: u64,
    /// `sha256:..` of the component.
    pub digest: String,
    /// What the plugin calls itself, and its version.
    pub plugin: String,
    /// `plugin-info.version`.
    pub plugin_version: String,
    /// Where the component came from.
    pub origin: Origin,
    /// Names of keys that signed it.
    pub signed_by: Vec<String>,
    /// Of everything but the component that makes the version, except values of secrets: two versions of one configuration have the same.
    pub settings_digest: String,
    /// When it began to serve, the last time.
    pub began: SystemTime,
    /// When it ended; none: it serves.
    pub ended: Option<SystemTime>,
    /// Why it ended.
    pub why_ended: Option<String>,
    /// What became of it.
    pub state: VersionState,
    /// It served well for a whole fault window: a later version that fails is rolled back to it.
    pub proven: bool,
    /// Its component is on this host's disk: it can be rolled back to, offline.
    pub is_kept: bool,
}

/// What became of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionState {
    /// It serves.
    Serving,
    /// A newer one came.
    Replaced,
    /// It was taken back.
    RolledBack {
        /// Why.
        reason: String,
    },
}

/// Keeps a backend at a version, whatever its document says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Which version.
    pub number: u64,
    /// Who asked for it.
    pub by: HeldBy,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
    /// What the document wanted then, in a digest; none: nobody knows.
    #[serde(rename = "wish", default)]
    pub revision: Option<String>,
}

/// Keeps a backend from taking new work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// What clients are told.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

/// Who keeps a backend at a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeldBy {
    /// An administrator went back to it: until a swap, or until an object means another version than it did then.
    Rollback,
    /// An administrator swapped to it without the document: the same.
    Swap,
    /// The host went back to it, for faults of this version: until the document means another one, or a swap.
    Faults {
        /// The version that failed.
        failed: u64,
    },
}

impl VersionRecord {
    /// Whether it serves.
    pub fn is_serving(&self) -> bool {
        self.state == VersionState::Serving
    }
}
