//! Requests and answers.
//!
//! Times are RFC 3339 in UTC. No value of a setting or a secret is ever among them.

use serde::{Deserialize, Serialize};
use wasmount_core::status::camel_case;

pub use wasmount_core::status::{Draining, Phase};

/// A host and its drivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// The host's version.
    pub version: String,
    /// The node's name in CSI.
    pub node: String,
    /// `all`, `node` or `controller`.
    pub role: String,
    /// Why no driver can be ready; none: no such reason.
    pub not_ready: Option<String>,
    /// Sorted by name.
    pub drivers: Vec<DriverStatus>,
}

/// One driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverStatus {
    /// The driver's name in CSI.
    pub driver: String,
    /// `metadata.name` of its document.
    pub backend: String,
    /// Where the document is: a path, or the object's kind and name.
    pub document: String,
    /// Its phase.
    #[serde(with = "camel_case")]
    pub phase: Phase,
    /// No version is loaded without a command until `resume`.
    pub paused: bool,
    /// Why it is not as its document says, or does not take new work; none: no such reason.
    pub reason: Option<String>,
    /// Why it cannot serve all that it should; none: it can.
    pub not_ready: Option<String>,
    /// The version that serves; none: no version does.
    pub version: Option<Version>,
    /// The last rejected candidate, if it is still rejected.
    pub refused: Option<Refused>,
    /// Since when it takes no new work because of `wasmount drain`; none: it takes work.
    pub drained_since: Option<String>,
    /// Calls that are not answered yet.
    pub calls_in_flight: u64,
    /// Old versions that still have calls.
    pub draining: Vec<Draining>,
    /// Volumes that are staged or published on this node; none: not known now.
    pub volumes_in_use: Option<u64>,
    /// Faults of the plugin since the host started.
    pub faults: u64,
    /// The last fault.
    pub last_fault: Option<Fault>,
}

/// A version of a plugin with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Its number among the versions of this driver on this host.
    pub number: u64,
    /// The name that the plugin reports.
    pub plugin: String,
    /// `sha256:..` of the component.
    pub digest: String,
    /// A path, or a reference with the digest of its manifest.
    pub origin: String,
    /// Distinguishes two sets of settings without revealing their values.
    pub settings_digest: String,
    /// Names of the keys that signed it.
    pub signed_by: Vec<String>,
    /// Since when it serves.
    pub since: String,
}

/// A version that may not serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// `sha256:..` of the component, if it was read.
    pub digest: Option<String>,
    /// One word, such as `signature`.
    pub kind: String,
    /// A message that says what to do.
    pub reason: String,
    /// When.
    pub at: String,
}

/// A fault of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// When.
    pub at: String,
    /// The RPC.
    pub rpc: String,
    /// One word, such as `trapped`.
    pub kind: String,
    /// Name, version and digest of the plugin, if they are known.
    pub plugin: Option<String>,
}

/// The versions of a driver that the host remembers, the newest first, and the rejected candidates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The driver's name in CSI.
    pub driver: String,
    /// Its versions.
    pub versions: Vec<PastVersion>,
    /// Candidates that were rejected, the newest first.
    #[serde(default)]
    pub refusals: Vec<PastRefusal>,
}

/// A candidate that was rejected, once or several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastRefusal {
    /// `sha256:..` of the component, if it was read.
    pub digest: Option<String>,
    /// Path or reference.
    pub origin: String,
    /// One word, such as `signature`.
    pub kind: String,
    /// The first line of the reason.
    pub reason: String,
    /// The first time.
    pub first: String,
    /// The last time.
    pub last: String,
    /// How often.
    pub times: u64,
}

/// A version of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastVersion {
    /// The version.
    #[serde(flatten)]
    pub version: Version,
    /// When it stopped serving; none: it serves.
    pub until: Option<String>,
    /// `serving`, `replaced` or `rolledBack`.
    pub state: String,
    /// Why it stopped serving, if there is a reason.
    pub reason: Option<String>,
}

/// Volumes of a driver that this node has in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volumes {
    /// The driver's name in CSI.
    pub driver: String,
    /// Sorted by id.
    pub volumes: Vec<Volume>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its id in CSI.
    pub id: String,
    /// Where it is staged.
    pub staged: Option<String>,
    /// Where it is published.
    pub published: Vec<String>,
}

/// Swaps at once to what the document says now, or to another component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Swap {
    /// A version may lack services of the one before.
    #[serde(default)]
    pub allow_service_change: bool,
    /// A component instead of the document's, until the document changes.
    #[serde(default)]
    pub plugin: Option<Plugin>,
}

/// Where a component is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Plugin {
    /// An absolute path in the host's file system.
    File(String),
    /// `oci://..`
    Reference(String),
}

/// Rolls back to an earlier version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// The number of that version; none: the one before.
    #[serde(default)]
    pub to: Option<u64>,
    /// Only if this version serves; none: whichever serves.
    #[serde(default)]
    pub from: Option<u64>,
}

/// Takes no new work and waits until the calls have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drain {
    /// The reason that clients see in errors.
    #[serde(default)]
    pub reason: Option<String>,
    /// How long to wait, in seconds.
    pub patience_seconds: u64,
}

/// Deletes a driver from this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delete {
    /// Deletes it even if volumes are in use.
    #[serde(default)]
    pub force: bool,
}

/// The answer to a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// What was done, as a sentence.
    pub said: String,
    /// Whether anything changed.
    pub changed: bool,
    /// The version that serves now.
    pub version: Option<Version>,
    /// What an administrator should know.
    pub warnings: Vec<String>,
}

/// The answer to a drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drained {
    /// Calls that had not ended after `patience_seconds`.
    pub calls_in_flight: u64,
    /// Volumes that are still in use; none: not known now.
    pub volumes_in_use: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_out_of_a_request_is_the_gentle_choice() {
        let swap: Swap = serde_json::from_value(json!({})).unwrap();
        assert_eq!(swap, Swap::default());
        let delete: Delete = serde_json::from_value(json!({})).unwrap();
        assert!(!delete.force);
    }

    #[test]
    fn a_word_that_nobody_knows_is_refused() {
        let read = |value| serde_json::from_value::<Swap>(value);
        assert!(read(json!({"allowServiceChange": true})).is_ok());
        assert!(read(json!({"allowServiceChanges": true})).is_err());
        assert!(read(json!({"plugin": {"reference": "oci://a.b/c:d"}})).is_ok());
        assert!(read(json!({"plugin": {"url": "x"}})).is_err());
    }

    #[test]
    fn a_past_version_is_one_flat_object() {
        let version = Version {
            number: 3,
            plugin: "directory 1.2".to_owned(),
            digest: "sha256:00".to_owned(),
            origin: "/a.wasm".to_owned(),
            settings_digest: "00".to_owned(),
            signed_by: Vec::new(),
            since: "2026-01-01T00:00:00Z".to_owned(),
        };
        let past = PastVersion {
            version,
            until: None,
            state: "serving".to_owned(),
            reason: None,
        };
        let value = serde_json::to_value(&past).unwrap();
        assert_eq!(
            (&value["number"], &value["state"]),
            (&json!(3), &json!("serving"))
        );
        assert_eq!(serde_json::from_value::<PastVersion>(value).unwrap(), past);
    }
}
