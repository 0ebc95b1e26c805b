//! What is wrong with a volume, as the storage sees it.

use crate::bindings::volume_health::exports::wasmount::csi::volume_health::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::VolumeId;

pub use crate::bindings::volume_health::exports::wasmount::csi::volume_health::{
    Health, HealthStatus,
};

/// The interface `volume-health`.
pub trait VolumeHealth: 'static {
    /// Serves the volume conditions of CSI 1.12 and the health calls of CSI 1.13. Empty: healthy. Answer within two seconds.
    fn get_volume_health(id: VolumeId) -> Result<Vec<Health>, Error>;
}

impl<T: VolumeHealth> Guest for Adapter<T> {
    fn get_volume_health(id: VolumeId) -> Result<Vec<Health>, Error> {
        T::get_volume_health(id)
    }
}

impl Health {
    /// One thing that is wrong. `reason` in CamelCase, for machines; `message` for people.
    pub fn new(
        status: HealthStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }
}
