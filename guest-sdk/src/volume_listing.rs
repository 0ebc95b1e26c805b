//! Listing all volumes.

use crate::bindings::volume_listing::exports::wasmount::csi::volume_listing::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::{PageRequest, VolumeEntry};

pub use crate::bindings::volume_listing::exports::wasmount::csi::volume_listing::VolumePage;

/// The interface `volume-listing`.
pub trait VolumeListing: 'static {
    /// `ListVolumes`: one page. A token that is not known any more: `aborted`.
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error>;
}

impl<T: VolumeListing> Guest for Adapter<T> {
    fn list_volumes(page: PageRequest) -> Result<VolumePage, Error> {
        T::list_volumes(page)
    }
}

impl From<(Vec<VolumeEntry>, Option<String>)> for VolumePage {
    /// What [`crate::state::page`] found.
    fn from((entries, next_token): (Vec<VolumeEntry>, Option<String>)) -> Self {
        Self {
            entries,
            next_token,
        }
    }
}
