//! Where a volume can be reached. It does not judge whether two places meet: that is the backend's.

use crate::attributes::Attributes;
use serde::{Deserialize, Serialize};

/// One place: `topology.kubernetes.io/zone` = `a`, ..
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Topology {
    /// Keys and values, as CSI's `Topology.segments`.
    pub segments: Attributes,
}

/// What the client asks of a volume's place (CSI `TopologyRequirement`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyRequirement {
    /// Reachable from at least one of these, if not empty.
    pub requisite: Vec<Topology>,
    /// To be tried in this order.
    pub preferred: Vec<Topology>,
}
