//! Changing a volume that exists by its VolumeAttributesClass.
//!
//! It does not change the size: that is [`crate::ControllerExpand`].

use crate::attributes::Attributes;
use crate::bindings::controller_modify::exports::wasmount::csi::controller_modify::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::VolumeId;

/// The interface `controller-modify`.
pub trait ControllerModify: 'static {
    /// `ControllerModifyVolume`: brings the volume to these parameters; what is not named stays.
    fn modify_volume(id: VolumeId, mutable_parameters: Attributes) -> Result<(), Error>;
}

impl<T: ControllerModify> Guest for Adapter<T> {
    fn modify_volume(id: VolumeId, mutable_parameters: Attributes) -> Result<(), Error> {
        T::modify_volume(id, mutable_parameters)
    }
}
