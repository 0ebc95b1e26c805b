//! What crosses: requests and answers.
//!
//! Times are RFC 3339 in UTC. No value of a setting or a secret is ever among these words.

use serde::{Deserialize, Serialize};
use wasmount_core::status::camel_case;

pub use wasmount_core::status::{Draining, Phase};

/// A host and its drivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// The host's version.
    pub version: String,
    /// CSI's name of the node.
    pub node: String,
    /// `all`, `node` or `controller`.
    pub role: String,
    /// Why no driver can be ready; none: nothing stands in the way.
    pub not_ready: Option<String>,
    /// In the order of their names.
    pub drivers: Vec<DriverStatus>,
}

/// One driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverStatus {
    /// CSI's name of it.
    pub driver: String,
    /// `metadata.name` of its document.
    pub backend: String,
    /// Where that stands: a path, or the object's kind and name.
    pub document: String,
    /// How it stands.
    #[serde(with = "camel_case")]
    pub phase: Phase,
    /// Nothing is loaded by itself until `resume`.
    pub paused: bool,
    /// Why it is not as its document says, or does not take new work; none: all is well.
    pub reason: Option<String>,
    /// Why it cannot do all that it is asked for; none: it can.
    pub not_ready: Option<String>,
    /// What serves; none: nothing does.
    pub version: Option<Version>,
    /// What was refused last, if that is still so.
    pub refused: Option<Refused>,
    /// Since when it takes no new work by `wasmount drain`; none: it does.
    pub drained_since: Option<String>,
    /// Calls that are not answered yet.
    pub calls_in_flight: u64,
    /// Old versions that still have calls.
    pub draining: Vec<Draining>,
    /// Volumes that are staged or published on this node; none: it cannot be told now.
    pub volumes_in_use: Option<u64>,
    /// Failures by a fault of the plugin since the host began.
    pub faults: u64,
    /// The last of them.
    pub last_fault: Option<Fault>,
}

/// A version of a plugin with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Its number among the versions of this driver on this host.
    pub number: u64,
    /// How the plugin calls itself.
    pub plugin: String,
    /// `sha256:..` of the component.
    pub digest: String,
    /// Path, or reference with the digest of its manifest.
    pub origin: String,
    /// Tells two sets of settings apart, and nothing of their values.
    pub settings_digest: String,
    /// Names of the keys that have signed it.
    pub signed_by: Vec<String>,
    /// Since when it serves.
    pub since: String,
}

/// A version that may not serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// `sha256:..` of the component, where it was read.
    pub digest: Option<String>,
    /// One word, such as `signature`.
    pub kind: String,
    /// In words, with what to do.
    pub reason: String,
    /// When.
    pub at: String,
}

/// A failure by a fault of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// When.
    pub at: String,
    /// In which call.
    pub rpc: String,
    /// One word, such as `trapped`.
    pub kind: String,
    /// Name, version and digest of the plugin, where they are known.
    pub plugin: Option<String>,
}

/// All versions of a driver that the host remembers, the newest first, and what was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// CSI's name of the driver.
    pub driver: String,
    /// Its versions.
    pub versions: Vec<PastVersion>,
    /// Candidates that did not become one, the newest first.
    #[serde(default)]
    pub refusals: Vec<PastRefusal>,
}

/// Something that was refused, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastRefusal {
    /// `sha256:..` of the component, where it was read.
    pub digest: Option<String>,
    /// Path or reference.
    pub origin: String,
    /// One word, such as `signature`.
    pub kind: String,
    /// The first line of what was said.
    pub reason: String,
    /// When for the first time.
    pub first: String,
    /// When for the last time.
    pub last: String,
    /// How often.
    pub times: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastVersion {
    /// What it was.
    #[serde(flatten)]
    pub version: Version,
    /// When it ceased to serve; none: it serves.
    pub until: Option<String>,
    /// What became of it: `serving`, `replaced` or `rolledBack`.
    pub state: String,
    /// Why it ended, where there is something to say.
    pub reason: Option<String>,
}

/// Volumes of a driver that this node has in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volumes {
    /// CSI's name of the driver.
    pub driver: String,
    /// In the order of their ids.
    pub volumes: Vec<Volume>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// CSI's id.
    pub id: String,
    /// Where it is staged.
    pub staged: Option<String>,
    /// Where it is published.
    pub published: Vec<String>,
}

/// Loads what the document says now, or another component in its place, at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Swap {
    /// A version may lack services of the one before.
    #[serde(default)]
    pub allow_service_change: bool,
    /// Another component for the document, until that changes.
    #[serde(default)]
    pub plugin: Option<Plugin>,
}

/// Where a component lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Plugin {
    /// An absolute path, as the host sees it.
    File(String),
    /// `oci://..`
    Reference(String),
}

/// Goes back to an earlier version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// To which; none: to the one before.
    #[serde(default)]
    pub to: Option<u64>,
    /// Only if this one serves; none: whichever does.
    #[serde(default)]
    pub from: Option<u64>,
}

/// Takes no new work and waits until the calls have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drain {
    /// What clients are told.
    #[serde(default)]
    pub reason: Option<String>,
    /// How long to wait, in seconds.
    pub patience_seconds: u64,
}

/// Takes a driver off this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delete {
    /// Also while volumes are in use.
    #[serde(default)]
    pub force: bool,
}

/// It was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// In words.
    pub said: String,
    /// Whether anything changed.
    pub changed: bool,
    /// What serves now.
    pub version: Option<Version>,
    /// What an administrator should know.
    pub warnings: Vec<String>,
}

/// No new work is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drained {
    /// Calls that had not ended when the patience did.
    pub calls_in_flight: u64,
    /// Volumes that are still in use; none: it cannot be told now.
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
