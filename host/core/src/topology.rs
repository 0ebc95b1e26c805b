//! The topology of a volume. Whether two topologies overlap is left to the backend.

use crate::attributes::Attributes;
use serde::{Deserialize, Serialize};

/// One topology: `topology.kubernetes.io/zone` = `a`, ..
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Topology {
    /// Keys and values, as CSI's `Topology.segments`.
    pub segments: Attributes,
}

/// The client's topology requirement for a volume (CSI `TopologyRequirement`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyRequirement {
    /// Reachable from at least one of these, if not empty.
    pub requisite: Vec<Topology>,
    /// In order of preference.
    pub preferred: Vec<Topology>,
}
