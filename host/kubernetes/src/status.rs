//! What a driver's standing with Kubernetes is, for readiness, metrics and whoever asks. Apart because the tasks that know it and the health
//! checks that tell it are in different crates.

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
