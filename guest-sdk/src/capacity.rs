//! How much can still be made. Apart because a backend may not know.
//!
//! It does not reserve anything: between this answer and the next volume others may take the space.

use crate::bindings::capacity::exports::wasmount::csi::capacity::Guest;
use crate::error::Error;
use crate::export::Adapter;

pub use crate::bindings::capacity::exports::wasmount::csi::capacity::{Available, CapacityArgs};

/// The interface `capacity`.
pub trait Capacity: 'static {
    /// `GetCapacity`: what new volumes of this kind can take, in bytes; 0 for a kind that cannot be made.
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error>;
}

impl<T: Capacity> Guest for Adapter<T> {
    fn get_capacity(args: CapacityArgs) -> Result<Available, Error> {
        T::get_capacity(args)
    }
}

impl Available {
    /// This many bytes, all of which one volume may take.
    pub fn bytes(available_bytes: u64) -> Self {
        Self {
            available_bytes,
            maximum_volume_bytes: Some(available_bytes),
            minimum_volume_bytes: None,
        }
    }
}
