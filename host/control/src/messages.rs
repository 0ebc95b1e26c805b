//! Requests and answers. What they say of versions is the status of `core`.
//!
//! Times are RFC 3339 in UTC. No value of a setting or a secret is ever among them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use wasmount_core::status::{
    Draining, DriverStatus, PastRefusal, Phase, RefusalKind, RefusedVersion, VersionRecord,
    VersionState,
};

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
    pub drivers: Vec<DriverReport>,
}

/// What a host logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogLevel {
    /// In the form of `wasmount serve --log`.
    pub level: String,
}

/// One driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverReport {
    /// The driver's name in CSI.
    pub driver: String,
    /// `metadata.name` of its document.
    pub backend: String,
    /// Where the document is: a path, or the object's kind and name.
    pub document: String,
    /// Its versions.
    #[serde(flatten)]
    pub status: DriverStatus,
    /// Why it is not as its document says, or does not take new work; none: no such reason.
    pub reason: Option<String>,
    /// Why it cannot serve all that it should; none: it can.
    pub not_ready: Option<String>,
    /// Calls that are not answered yet.
    pub calls_in_flight: u64,
    /// Volumes that are staged or published on this node; none: not known now.
    pub volumes_in_use: Option<u64>,
    /// Faults of the plugin since the host started.
    pub faults: u64,
    /// The last fault.
    pub last_fault: Option<Fault>,
}

/// A fault of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// When.
    pub at: Timestamp,
    /// The RPC.
    pub rpc: String,
    /// A name, such as `trapped`.
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
    pub versions: Vec<VersionRecord>,
    /// Candidates that were rejected, the newest first.
    #[serde(default)]
    pub refusals: Vec<PastRefusal>,
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
    pub plugin: Option<Plugin>,
    /// For a share of the volumes only; none: for all.
    pub share: Option<Share>,
}

/// The share of the volumes that a new version is to serve, or to which its share is to grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Share {
    /// From 1 to 100; 100: all.
    pub percent: u8,
    /// After so many seconds without a fault it serves all; none: by command.
    pub promote_after_seconds: Option<u64>,
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
    pub to: Option<u64>,
    /// Only if this version serves; none: whichever serves.
    pub from: Option<u64>,
}

/// Takes no new work and waits until the calls have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drain {
    /// The reason that clients see in errors.
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
    /// The version that serves now, or a share of the volumes.
    pub version: Option<VersionRecord>,
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
    fn an_unknown_field_is_rejected() {
        let read = |value| serde_json::from_value::<Swap>(value);
        assert!(read(json!({"allowServiceChange": true})).is_ok());
        assert!(read(json!({"allowServiceChanges": true})).is_err());
        assert!(read(json!({"plugin": {"reference": "oci://a.b/c:d"}})).is_ok());
        assert!(read(json!({"plugin": {"url": "x"}})).is_err());
        assert!(read(json!({"share": {"percent": 10}})).is_ok());
        assert!(read(json!({"share": {"percents": 10}})).is_err());
    }

    #[test]
    fn a_report_is_one_flat_object() {
        let report = DriverReport {
            driver: "a.b".to_owned(),
            backend: "a".to_owned(),
            document: "/a.yaml".to_owned(),
            status: DriverStatus {
                phase: Phase::RolledBack,
                ..DriverStatus::default()
            },
            reason: None,
            not_ready: None,
            calls_in_flight: 0,
            volumes_in_use: None,
            faults: 0,
            last_fault: None,
        };
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["phase"], json!("rolledBack"));
        assert_eq!(value["driver"], json!("a.b"));
        assert_eq!(
            serde_json::from_value::<DriverReport>(value).unwrap(),
            report
        );
    }
}
