//! What a document says of how its plugin's calls are served.

use super::PodInfo;
use crate::capabilities::Hidden;
use crate::document::{Limits, StorageBackend};
use crate::fault::FaultKind;
use crate::rpc::Rpc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The terms of one version.
#[derive(Debug, Clone)]
pub struct ServingPolicy {
    /// How long one call of the backend may take (`limits.time`).
    pub time_budget: Duration,
    /// What is neither advertised nor served.
    pub hidden: Hidden,
    /// What kubelet must tell of a pod.
    pub pod_info: PodInfo,
    /// Who is told of this version's faults, and of no other's. One that does not keep up misses the newest.
    pub faults: Option<mpsc::Sender<VersionFault>>,
}

/// A fault of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionFault {
    /// When it was found.
    pub at: Instant,
    /// In which call.
    pub rpc: Rpc,
    /// What kind.
    pub kind: FaultKind,
    /// Which call it was and what it was about, as a number: the same for a retry.
    pub subject: u64,
    /// The version has answered the same call about something else.
    pub answers_others: bool,
}

impl ServingPolicy {
    /// As the document has them.
    pub fn of(document: &StorageBackend) -> Self {
        Self {
            time_budget: document.limits.time,
            hidden: document.hidden.clone(),
            pod_info: PodInfo::of(&document.csi_driver),
            faults: None,
        }
    }
}

impl Default for ServingPolicy {
    /// Those of a document that says nothing.
    fn default() -> Self {
        Self {
            time_budget: Limits::default().time,
            hidden: Hidden::default(),
            pod_info: PodInfo::default(),
            faults: None,
        }
    }
}
