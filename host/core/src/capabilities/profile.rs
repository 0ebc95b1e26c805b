//! The version of CSI that is served to clients (`--csi-profile`). CSI 1.13 replaced volume conditions by health calls, and a driver cannot detect
//! which of the two a client was built with.
//!
//! All differences between the versions follow from the few methods here. This module knows no message: parsers and answers are the same for all
//! versions.

use crate::rpc::Rpc;

/// A version of CSI, as far as it changes what is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Volume conditions, no health calls.
    #[default]
    V1_12,
    /// Health calls, no volume conditions; snapshots have a topology.
    V1_13,
}

impl Profile {
    /// Whether this version has a call.
    pub fn has(self, rpc: Rpc) -> bool {
        match rpc {
            Rpc::ControllerListVolumeHealth
            | Rpc::ControllerGetVolumeHealth
            | Rpc::NodeGetVolumeHealth
            | Rpc::NodeGetStorageHealth => self.has_health(),
            _ => true,
        }
    }

    /// Whether answers have a `volume_condition`.
    pub(crate) fn has_conditions(self) -> bool {
        self == Profile::V1_12
    }

    /// Whether there are health calls.
    pub(crate) fn has_health(self) -> bool {
        self == Profile::V1_13
    }

    /// Whether snapshots have a topology (`accessibility_requirements`, `accessible_topology`).
    pub(crate) fn has_snapshot_places(self) -> bool {
        self == Profile::V1_13
    }
}
