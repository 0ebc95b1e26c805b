//! The state of a rollout as it is in `status.rollout`, and the part that one host has in it. Plain data: it decides nothing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use wasmount_core::document::{Rollout, raw};
use wasmount_core::named;

/// Hexadecimal digits that identify a candidate: 64 bits, to tell the few specs of one object apart.
const CANDIDATE_DIGITS: usize = 16;
/// The key of `spec` that is no part of a candidate.
const KEY: &str = "rollout";

/// `status.rollout`: everything that a newly elected host needs to continue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Which `spec` it is about, without `spec.rollout`: the beginning of its SHA-256.
    pub candidate: String,
    /// Counts the attempts at this candidate.
    #[serde(default)]
    pub attempt: u64,
    /// The step: 0 before the first one, one more than `steps` if all hosts take the candidate.
    #[serde(default)]
    pub step: u64,
    /// How many steps there are before all hosts take it.
    #[serde(default)]
    pub steps: u64,
    /// Its phase.
    pub phase: RolloutPhase,
    /// Step and phase in a few characters.
    #[serde(default)]
    pub progress: String,
    /// Since when it has this step and phase.
    pub since: Timestamp,
    /// Since when all hosts of the step have served the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_since: Option<Timestamp>,
    /// Hosts on nodes whose position is at most this take the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<u32>,
    /// What it waits for, or why it ended.
    #[serde(default)]
    pub message: String,
    /// The last command that was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The `spec` that was promoted last: hosts serve it that do not take the candidate.
    pub stable: Value,
    /// The one that was promoted before it: for an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Value>,
}

named! {
    /// The phase of a rollout.
    #[derive(Default, Serialize, Deserialize)]
    pub enum RolloutPhase, name {
        /// It goes on by itself.
        #[default]
        Progressing = "Progressing",
        /// It stays at its step until `resume`.
        Paused = "Paused",
        /// All hosts serve the candidate.
        Promoted = "Promoted",
        /// A host failed: all hosts serve what was promoted last.
        Failed = "Failed",
        /// An administrator has undone it: all hosts serve what was promoted last.
        RolledBack = "RolledBack",
        /// A phase of another build, which this one does not know: hosts serve what was promoted last.
        #[serde(other)]
        Unknown = "Unknown",
    }
}

/// The part of one host in a rollout, in its report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPart {
    /// The candidate that the host has seen. Empty while it does not know the labels of its node.
    pub candidate: String,
    /// The attempt that it takes part in.
    #[serde(default)]
    pub attempt: u64,
    /// What the report says is about the candidate, and not about what was promoted last.
    #[serde(default)]
    pub takes: bool,
    /// The first step whose labels its node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<u64>,
}

impl RolloutPhase {
    /// The reason of an event.
    pub(in crate::storage_backend) fn event(self) -> &'static str {
        match self {
            Self::Progressing => "RolloutProgressing",
            Self::Paused => "RolloutPaused",
            Self::Promoted => "RolloutPromoted",
            Self::Failed => "RolloutFailed",
            Self::RolledBack => "RolloutUndone",
            Self::Unknown => "RolloutUnknown",
        }
    }

    /// Hosts of the step take the candidate.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Progressing | Self::Paused)
    }
}

impl RolloutStatus {
    /// All hosts take the candidate.
    pub fn is_for_all(&self) -> bool {
        self.step > self.steps
    }

    /// The step in words.
    pub fn step_in_words(&self) -> String {
        match self.is_for_all() {
            true => "all hosts".to_owned(),
            false => format!("step {} of {}", self.step, self.steps),
        }
    }

    /// Step and message in one line.
    pub(in crate::storage_backend) fn described(&self) -> String {
        format!("{}: {}", self.step_in_words(), self.message)
    }

    /// Such as `2/3`, and the phase if it does not simply go on.
    pub(in crate::storage_backend) fn shown(&self) -> String {
        let step = match self.is_for_all() {
            true => "all".to_owned(),
            false => format!("{}/{}", self.step, self.steps),
        };
        match self.phase {
            RolloutPhase::Progressing => step,
            RolloutPhase::Promoted => self.phase.name().to_owned(),
            phase => format!("{step} {}", phase.name()),
        }
    }
}

/// The state in the status of an object; one that cannot be parsed is written anew.
pub(in crate::storage_backend) fn rollout_of(status: Option<&Value>) -> Option<RolloutStatus> {
    RolloutStatus::deserialize(status?.get(KEY)?).ok()
}

/// The steps of a `spec`; none if it has none, or invalid ones.
pub(in crate::storage_backend) fn plan(spec: &Value) -> Option<Rollout> {
    let raw = raw::Rollout::deserialize(spec.get(KEY)?).ok()?;
    Rollout::try_from(raw).ok()
}

/// Whether a `spec` has steps, valid or not.
pub(in crate::storage_backend) fn has_plan(spec: &Value) -> bool {
    spec.get(KEY).is_some()
}

/// A `spec` without its steps: what is rolled out.
pub(in crate::storage_backend) fn without_plan(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(keys) = spec.as_object_mut() {
        keys.remove(KEY);
    }
    spec
}

/// Identifies what a `spec` says apart from its steps.
pub(in crate::storage_backend) fn digest(spec: &Value) -> String {
    // The keys of each object are in alphabetical order.
    let mut digest = hex::encode(Sha256::digest(without_plan(spec).to_string()));
    digest.truncate(CANDIDATE_DIGITS);
    digest
}

/// The position of a host among all hosts of a backend: of each backend other hosts come first.
pub(in crate::storage_backend) fn position(backend: &str, host: &str) -> u32 {
    let digest = Sha256::digest(format!("{backend}\0{host}"));
    let first = digest.first_chunk().copied();
    first.map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
pub(in crate::storage_backend) mod tests {
    use super::*;
    use serde_json::json;

    /// The first step of two, of a `spec` whose `stable` says `one`.
    pub(in crate::storage_backend) fn rollout(spec: &Value, stable: &Value) -> RolloutStatus {
        RolloutStatus {
            candidate: digest(spec),
            attempt: 1,
            step: 1,
            steps: 2,
            phase: RolloutPhase::Progressing,
            progress: "1/2".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            served_since: None,
            bound: None,
            message: String::new(),
            command: None,
            stable: without_plan(stable),
            previous: None,
        }
    }

    #[test]
    fn a_change_of_the_steps_alone_is_the_same_candidate() {
        let spec = json!({ "a": 1, "b": { "x": 1, "y": 2 }, "rollout": { "steps": [] } });
        let same: Value = serde_json::from_str(r#"{"b":{"y":2,"x":1},"a":1}"#).unwrap();
        assert_eq!(digest(&spec), digest(&same));
        assert_eq!(digest(&spec).len(), CANDIDATE_DIGITS);
        let other = json!({ "a": 1, "b": { "x": 1, "y": 3 }, "rollout": { "steps": [] } });
        assert_ne!(digest(&spec), digest(&other));
    }

    #[test]
    fn positions_are_stable_and_of_each_backend_others() {
        assert_eq!(position("nfs", "n1"), position("nfs", "n1"));
        assert_ne!(position("nfs", "n1"), position("iscsi", "n1"));
        let low = (0..1000).filter(|n| position("nfs", &format!("n{n}")) < u32::MAX / 10);
        let low = low.count();
        assert!((60..140).contains(&low), "{low}");
    }

    #[test]
    fn progress_is_short_and_names_what_is_not_usual() {
        let mut state = rollout(&json!({}), &json!({}));
        assert_eq!(state.shown(), "1/2");
        state.phase = RolloutPhase::Failed;
        assert_eq!(state.shown(), "1/2 Failed");
        (state.phase, state.step) = (RolloutPhase::Progressing, 3);
        assert_eq!(state.shown(), "all");
        state.phase = RolloutPhase::Promoted;
        assert_eq!(state.shown(), "Promoted");
    }

    #[test]
    fn a_phase_of_another_build_is_unknown() {
        let read = |phase: &str| serde_json::from_value::<RolloutPhase>(phase.into()).unwrap();
        assert_eq!(read("Paused"), RolloutPhase::Paused);
        assert_eq!(read("Baking"), RolloutPhase::Unknown);
    }
}
