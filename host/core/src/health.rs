//! What is wrong with a volume or with the storage behind it: CSI 1.13's words, from which the volume conditions of CSI 1.12 are made. Apart
//! because three sides speak of it: a backend, the mount room, and the client.

use serde::{Deserialize, Serialize};

/// How bad it is (CSI 1.13, `VolumeHealthErrorType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HealthStatus {
    /// Usable, and not as it should be.
    Degraded,
    /// Cannot be reached.
    Inaccessible,
    /// Data is lost for good, or probably so.
    DataLoss,
    /// A status of a later CSI: its number.
    Other(u32),
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How bad.
    pub status: HealthStatus,
    /// In CamelCase, for machines; each at most once with one status.
    pub reason: String,
    /// For people.
    pub message: String,
}
