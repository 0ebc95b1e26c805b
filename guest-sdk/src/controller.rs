//! Creating and deleting volumes.

use crate::bindings::controller::exports::wasmount::csi::controller::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::{Volume, VolumeId};

pub use crate::bindings::controller::exports::wasmount::csi::controller::{
    CreateVolumeArgs, ValidateArgs, Validation,
};

/// The interface `controller`. Every call may come again with the same arguments and must then give the same answer.
pub trait Controller: 'static {
    /// `CreateVolume`: idempotent by name. The same name with what cannot be the same volume: `already-exists`.
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error>;

    /// `DeleteVolume`: a volume that does not exist is deleted already.
    fn delete_volume(id: VolumeId) -> Result<(), Error>;

    /// `ValidateVolumeCapabilities`: whether the volume can do all that is asked for; `not-found` when it does not exist.
    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error>;
}

impl<T: Controller> Guest for Adapter<T> {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        T::create_volume(args)
    }

    fn delete_volume(id: VolumeId) -> Result<(), Error> {
        T::delete_volume(id)
    }

    fn validate_volume_capabilities(args: ValidateArgs) -> Result<Validation, Error> {
        T::validate_volume_capabilities(args)
    }
}

impl Validation {
    /// Not supported, and why.
    pub fn unsupported(why: impl Into<String>) -> Self {
        Self::Unsupported(why.into())
    }
}

impl From<Result<(), Error>> for Validation {
    /// What a check says: an error's message is the reason why not.
    fn from(check: Result<(), Error>) -> Self {
        match check {
            Ok(()) => Self::Confirmed,
            Err(error) => Self::Unsupported(error.message),
        }
    }
}

impl CreateVolumeArgs {
    /// Refuses a volume that is to begin as a copy, with `invalid-argument`: for backends that neither clone nor restore.
    pub fn must_start_empty(&self) -> Result<(), Error> {
        match self.content_source {
            None => Ok(()),
            Some(_) => Err(Error::invalid_argument(
                "volumes of this driver start empty: create one without dataSource",
            )),
        }
    }
}
