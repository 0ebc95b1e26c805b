//! Looking up one volume.
//!
//! It does not judge health beyond a condition: that is [`crate::VolumeHealth`].

use crate::bindings::volume_lookup::exports::wasmount::csi::volume_lookup::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::{VolumeEntry, VolumeId};

/// The interface `volume-lookup`.
pub trait VolumeLookup: 'static {
    /// `ControllerGetVolume`.
    fn get_volume(id: VolumeId) -> Result<VolumeEntry, Error>;
}

impl<T: VolumeLookup> Guest for Adapter<T> {
    fn get_volume(id: VolumeId) -> Result<VolumeEntry, Error> {
        T::get_volume(id)
    }
}
