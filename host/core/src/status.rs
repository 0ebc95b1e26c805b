//! The status of a driver and its versions: what the reconciler publishes, the history stores, the admin socket serves and Kubernetes reports.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

named! {
/// The phase of a driver on a host.
#[derive(Default, Serialize, Deserialize)]
pub enum Phase, name {
    /// A version is being fetched, compiled or admitted; an earlier one may serve meanwhile.
    #[default]
    Loading = "Loading",
    /// The desired revision serves.
    Serving = "Serving",
    /// An earlier version than the desired revision serves, after a rollback.
    RolledBack = "RolledBack",
    /// The desired revision was rejected; an earlier version may serve.
    Refused = "Refused",
    /// An administrator has stopped changes on this host.
    Paused = "Paused",
    /// An administrator has stopped new work for it on this host.
    Draining = "Draining",
    /// A dependency is missing, such as a secret.
    Waiting = "Waiting",
    /// The object is not a valid backend.
    Invalid = "Invalid",
    /// Another document has the driver: a file of this host, or an older object.
    Taken = "Taken",
    /// It is to be removed, and volumes are still staged.
    Removing = "Removing",
    /// It is removed from this host.
    Removed = "Removed",
    /// Unknown to this build, since another build wrote it.
    #[serde(other)]
    Unknown = "Unknown",
}
}

named! {
/// The kind of a rejection, in the order of admission, with its name for machines, such as the label of a metric.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind, as_str {
    /// The component could not be fetched.
    Source = "source",
    /// A secret could not be read.
    Secret = "secret",
    /// Too large.
    Size = "size",
    /// The digest is not the document's.
    Digest = "digest",
    /// A required signature is missing.
    Signature = "signature",
    /// Not a component.
    NotAComponent = "not_a_component",
    /// It does not compile.
    Compile = "compile",
    /// Another line of the contract.
    ApiLine = "api_line",
    /// It imports what the host lacks.
    Imports = "imports",
    /// It does not link, start, or report its identity.
    TrialLoad = "trial_load",
    /// Its features contradict its services.
    Features = "features",
    /// It lacks what the running version offers.
    Services = "services",
    /// Its limits are higher than this host's.
    Limits = "limits",
    /// It does not accept its settings.
    Settings = "settings",
    /// It cannot say whether it is ready.
    Probe = "probe",
    /// Records of the version before cannot be migrated.
    Migration = "migration",
    /// Its grants cannot be applied.
    Grants = "grants",
    /// The host's files cannot be written.
    Disk = "disk",
    /// There is no such version to roll back to.
    History = "history",
    /// It cannot serve a share of the volumes.
    Share = "share",
    /// Another request was done first.
    Overtaken = "overtaken",
}
}

/// The status of a driver's versions on a host; the default is that of a reconciler that has just started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverStatus {
    /// Its phase.
    #[serde(with = "camel_case")]
    pub phase: Phase,
    /// The version that serves; none: no version does.
    pub version: Option<VersionRecord>,
    /// Warnings for an administrator.
    pub warnings: Vec<String>,
    /// The last rejection, if no version was activated since.
    pub refused: Option<RefusedVersion>,
    /// Versions that were replaced and still have calls.
    pub draining: Vec<Draining>,
    /// The hold that keeps it from following its document.
    pub held: Option<Hold>,
    /// Only commands change it (`wasmount pause`).
    pub paused: bool,
    /// Why no new work is taken, and since when (`wasmount drain`).
    pub drained: Option<Drained>,
    /// The share of the volumes that a new version serves (`wasmount swap --share`).
    pub share: Option<Share>,
    /// When the plugin of the version that serves last failed a call, rounded up to 10 s. What the call was is in the status of the driver.
    #[serde(skip)]
    pub last_fault: Option<Timestamp>,
    /// How many revisions were desired, counted from the reconciler's start.
    #[serde(skip)]
    pub desired: u64,
    /// The last of those with a known outcome.
    #[serde(skip)]
    pub settled: u64,
}

/// A version of a backend: code, settings, secrets, grants and limits together. It never changes, but its state does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionRecord {
    /// Increases by one with each version of the backend on this host, and is never reused.
    pub number: u64,
    /// `sha256:..` of the component.
    pub digest: String,
    /// `plugin-info.name`.
    pub plugin: String,
    /// `plugin-info.version`.
    pub plugin_version: String,
    /// Where the component was fetched from: a path, or a reference with the digest of its manifest.
    pub origin: String,
    /// Names of keys that signed it.
    pub signed_by: Vec<String>,
    /// Digest of everything that makes the version, except the component and values of secrets: two versions of one configuration have the same.
    pub settings_digest: String,
    /// When it last began to serve.
    pub since: Timestamp,
    /// When it stopped serving; none: it serves.
    pub until: Option<Timestamp>,
    /// Why it stopped serving.
    pub reason: Option<String>,
    /// Its state.
    pub state: VersionState,
    /// It served well for a whole fault window: if a later version fails, the host rolls back to it.
    pub proven: bool,
    /// Its component is on this host's disk: it can be rolled back to without a registry.
    pub is_kept: bool,
}

/// The state of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VersionState {
    /// It serves.
    Serving,
    /// A newer one replaced it.
    Replaced,
    /// It was rolled back.
    RolledBack,
}

/// A version that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedVersion {
    /// It is the document's version; otherwise an administrator requested it by command, and the document says something else.
    pub by_document: bool,
    /// `sha256:..` of its component; none: it was not fetched.
    pub digest: Option<String>,
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// A message that states what to do.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// A candidate that was rejected, once or several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRefusal {
    /// `sha256:..` of the component; none: it was not fetched.
    pub digest: Option<String>,
    /// Where it was fetched from, or should have been.
    pub origin: String,
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// The first line of the reason.
    pub reason: String,
    /// The first time.
    pub first: Timestamp,
    /// The last time.
    pub last: Timestamp,
    /// How often.
    pub times: u64,
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
    pub since: Timestamp,
    /// A digest of what the document desired then; none: not known.
    pub revision: Option<String>,
}

/// Who holds a backend at a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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

/// Keeps a backend from taking new work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// The reason that clients see.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// A share of the volumes that a new version serves; the version before serves everything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The new version.
    pub number: u64,
    /// Of a hundred volumes, chosen by a hash.
    pub percent: u8,
    /// Since when it has a share.
    pub since: Timestamp,
    /// After so many seconds without a fault it serves all volumes; none: by command only.
    pub promote_after_seconds: Option<u64>,
    /// It is not the document's: a command named its component.
    pub pinned: bool,
    /// A digest of what the document desired then.
    pub revision: String,
}

/// A version that was replaced and still has calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draining {
    /// Its version number.
    pub number: u64,
    /// The number of calls.
    pub calls: u64,
}

impl DriverStatus {
    /// The phase for an administrator: a version that serves keeps serving while that of the document is rejected.
    pub fn shown_phase(&self) -> Phase {
        match (self.phase, &self.refused) {
            (Phase::Serving, Some(refused)) if refused.by_document => Phase::Refused,
            (phase, _) => phase,
        }
    }
}

impl Phase {
    /// Whether an administrator should check it.
    pub fn is_trouble(self) -> bool {
        match self {
            Self::RolledBack
            | Self::Refused
            | Self::Waiting
            | Self::Invalid
            | Self::Taken
            | Self::Unknown => true,
            Self::Loading
            | Self::Serving
            | Self::Paused
            | Self::Draining
            | Self::Removing
            | Self::Removed => false,
        }
    }
}

impl VersionRecord {
    /// The plugin's own name and version, for people.
    pub fn label(&self) -> String {
        format!("{} {}", self.plugin, self.plugin_version)
    }

    /// It serves no longer.
    pub fn end(&mut self, state: VersionState, reason: String, now: Timestamp) {
        self.state = state;
        self.until = Some(now);
        self.reason = Some(reason);
    }
}

/// Now, to the second: no reader of a record needs more precision.
pub fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// The phase in the notation of the admin socket: `rolledBack`.
pub mod camel_case {
    use super::Phase;
    use serde::de::IntoDeserializer;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises it.
    pub fn serialize<S: Serializer>(phase: &Phase, to: S) -> Result<S::Ok, S::Error> {
        let (first, rest) = phase.name().split_at(1);
        to.collect_str(&format_args!("{}{rest}", first.to_ascii_lowercase()))
    }

    /// Deserialises it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Phase, D::Error> {
        let mut text = String::deserialize(from)?;
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Phase::deserialize(text.into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_of_another_build_is_unknown_and_not_an_error() {
        let read = |text: &str| serde_json::from_value::<Phase>(text.into()).unwrap();
        assert_eq!(read("RolledBack"), Phase::RolledBack);
        assert_eq!(read("Dancing"), Phase::Unknown);
    }

    #[test]
    fn the_name_is_what_is_written() {
        for phase in [Phase::Serving, Phase::Refused, Phase::Taken, Phase::Removed] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }

    #[test]
    fn a_kind_is_serialised_by_its_name() {
        for kind in RefusalKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn the_admin_socket_has_it_in_camel_case() {
        for (phase, text) in [
            (Phase::RolledBack, "rolledBack"),
            (Phase::Serving, "serving"),
        ] {
            let written = camel_case::serialize(&phase, serde_json::value::Serializer);
            assert_eq!(written.unwrap(), text);
            let read = camel_case::deserialize(serde_json::Value::from(text));
            assert_eq!(read.unwrap(), phase);
        }
        let read = camel_case::deserialize(serde_json::Value::from("dancing"));
        assert_eq!(read.unwrap(), Phase::Unknown);
    }
}
