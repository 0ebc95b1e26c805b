//! A driver's status in Kubernetes, for readiness, metrics and the admin socket.

use std::time::Duration;

/// The registration of a driver with kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrationStatus {
    /// kubelet has reported the driver as registered, since its socket was last bound.
    pub registered: bool,
    /// How often kubelet registered it.
    pub registrations: u64,
    /// How often kubelet rejected it.
    pub refusals: u64,
    /// How often the socket was bound again: after rejections, after its file was removed, or because of what CSINode lacks.
    pub rebinds: u64,
    /// Why it is not registered; kubelet's message, if it sent one.
    pub reason: Option<String>,
    /// How long the driver was not served before this host's first registration; none: no host served it earlier, or it is not registered yet.
    pub gap: Option<Gap>,
}

/// How long no host served a driver: from the last moment of the previous host to the moment when kubelet registered this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// How long.
    pub length: Duration,
    /// The event from which it was measured.
    pub from: GapStart,
}

/// How the previous host ended, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapStart {
    /// It stopped, and recorded when.
    Stopped,
    /// It was killed while this one waited for it: the kernel released the data directory at that moment.
    Killed,
    /// It was killed at an unknown time: the gap is counted from the start of this one, and was longer.
    Unknown,
}

/// The state of a driver in Node and CSINode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingStatus {
    /// CSINode and Node match the driver.
    pub listed: bool,
    /// How often they stopped matching.
    pub drifts: u64,
    /// Why it is not listed, as a sentence.
    pub reason: Option<String>,
}
