//! A version as administrators, statuses and the stored history show it.

use crate::desired::Origin;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// A version of a backend: code, settings, secrets, grants and limits together. It never changes, but its state does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRecord {
    /// Increases by one with each version of the backend, and is never reused.
    pub number: u64,
    /// `sha256:..` of the component.
    pub digest: String,
    /// The name and version that the plugin reports.
    pub plugin: String,
    /// `plugin-info.version`.
    pub plugin_version: String,
    /// Where the component was fetched from.
    pub origin: Origin,
    /// Names of keys that signed it.
    pub signed_by: Vec<String>,
    /// Digest of everything that makes the version, except the component and values of secrets: two versions of one configuration have the same.
    pub settings_digest: String,
    /// When it last began to serve.
    pub began: SystemTime,
    /// When it stopped serving; none: it serves.
    pub ended: Option<SystemTime>,
    /// Why it stopped serving.
    pub why_ended: Option<String>,
    /// Its state.
    pub state: VersionState,
    /// It served well for a whole fault window: if a later version fails, the host rolls back to it.
    pub proven: bool,
    /// Its component is on this host's disk: it can be rolled back to without a registry.
    pub is_kept: bool,
}

/// The state of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionState {
    /// It serves.
    Serving,
    /// A newer one replaced it.
    Replaced,
    /// It was rolled back.
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
    /// Who requested it.
    pub by: HeldBy,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
    /// A digest of what the document desired then; none: not known.
    #[serde(rename = "wish", default)]
    pub revision: Option<String>,
}

/// Keeps a backend from taking new work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// The reason that clients see.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

/// Who holds a backend at a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeldBy {
    /// An administrator rolled back to it: until a swap, or until an object means another version than it did then.
    Rollback,
    /// An administrator swapped to it without the document: until the same.
    Swap,
    /// The host rolled back to it because of faults of this version: until the document means another version, or a swap.
    Faults {
        /// The version that failed.
        failed: u64,
    },
}

impl VersionRecord {
    pub(crate) fn end(&mut self, state: VersionState, why: String, now: SystemTime) {
        self.state = state;
        self.ended = Some(now);
        self.why_ended = Some(why);
    }
}
