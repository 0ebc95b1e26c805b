//! The state of a driver, as reported by the reconciler, the admin socket and Kubernetes.

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

/// A version that was replaced and still has calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draining {
    /// Its version number.
    pub number: u64,
    /// The number of calls.
    pub calls: u64,
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
