//! How a backend stands on a host, in one word.

use serde::{Deserialize, Serialize};

/// One word for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// A version is being found, compiled or proved; an earlier one may serve meanwhile.
    Loading,
    /// The version that the object asks for serves.
    Serving,
    /// An earlier version serves, since the one that was asked for failed too often.
    RolledBack,
    /// What is asked for was refused; an earlier version may serve.
    Refused,
    /// An administrator has stopped changes on this host.
    Paused,
    /// An administrator has this host take no new work for it.
    Draining,
    /// It needs something that is not there yet, such as a secret.
    Waiting,
    /// The object cannot be read as a backend.
    Invalid,
    /// The driver belongs to a file of this host, or to an older object.
    Taken,
    /// It is to go, and volumes are still staged.
    Removing,
    /// It is gone from this host.
    Removed,
    /// Not known to this build: written by another one.
    #[serde(other)]
    Unknown,
}

/// Who had a host go back to the version before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolledBackBy {
    /// The host itself: the version failed too often.
    PluginFaults,
    /// An administrator of the host (`wasmount rollback`).
    Administrator,
    /// Not known to this build: written by another one.
    #[serde(other)]
    Unknown,
}

impl RolledBackBy {
    /// As the reason of a condition.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::PluginFaults => "PluginFaults",
            Self::Administrator => "RolledBackByAdministrator",
            Self::Unknown => "Unknown",
        }
    }
}

impl Phase {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "Loading",
            Self::Serving => "Serving",
            Self::RolledBack => "RolledBack",
            Self::Refused => "Refused",
            Self::Paused => "Paused",
            Self::Draining => "Draining",
            Self::Waiting => "Waiting",
            Self::Invalid => "Invalid",
            Self::Taken => "Taken",
            Self::Removing => "Removing",
            Self::Removed => "Removed",
            Self::Unknown => "Unknown",
        }
    }

    /// A person should look.
    pub(super) fn is_trouble(self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_of_another_build_is_unknown_and_not_an_error() {
        let read = |word: &str| serde_json::from_value::<Phase>(word.into()).unwrap();
        assert_eq!(read("RolledBack"), Phase::RolledBack);
        assert_eq!(read("Dancing"), Phase::Unknown);
        let read = |word: &str| serde_json::from_value::<RolledBackBy>(word.into()).unwrap();
        assert_eq!(read("Administrator"), RolledBackBy::Administrator);
        assert_eq!(read("Somebody"), RolledBackBy::Unknown);
    }

    #[test]
    fn the_name_is_what_is_written() {
        for phase in [Phase::Serving, Phase::Refused, Phase::Taken, Phase::Removed] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }
}
