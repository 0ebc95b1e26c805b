//! What a driver's standing with Kubernetes is, for readiness, metrics and whoever asks.

use std::time::Duration;

/// How a driver stands with kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrationStatus {
    /// kubelet said that it has taken the driver, since its socket was last bound.
    pub registered: bool,
    /// How often kubelet took it.
    pub registrations: u64,
    /// How often kubelet refused it.
    pub refusals: u64,
    /// How often the socket was bound again: refusals, a socket that somebody removed, what CSINode lacks.
    pub rebinds: u64,
    /// Why it is not registered, in kubelet's words where it said any.
    pub reason: Option<String>,
    /// How long the driver was not served before this host's first registration; none: no host served it earlier, or it is not registered yet.
    pub gap: Option<Gap>,
}

/// How long nobody served a driver: from the last moment of the host before to the moment when kubelet had taken this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// How long.
    pub length: Duration,
    /// Where it was measured from.
    pub from: GapStart,
}

/// How the host before ended, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapStart {
    /// It stopped, and said when.
    Stopped,
    /// It was killed while this one waited for it: the kernel gave the data directory on at that moment.
    Killed,
    /// It was killed at an unknown time: the gap is counted from the start of this one, and was longer.
    Unknown,
}

/// How a driver stands in the API server's objects of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingStatus {
    /// CSINode and Node say what the driver says.
    pub listed: bool,
    /// How often they ceased to.
    pub drifts: u64,
    /// Why it is not listed, in words.
    pub reason: Option<String>,
}
