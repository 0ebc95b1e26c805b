//! How much can still be made.
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

    /// No volume is smaller than this; where less is left, none can be made.
    #[must_use]
    pub fn at_least(self, minimum_bytes: u64) -> Self {
        if self
            .maximum_volume_bytes
            .is_some_and(|it| it < minimum_bytes)
        {
            return Self::bytes(0);
        }
        Self {
            minimum_volume_bytes: Some(minimum_bytes),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_less_is_left_than_a_volume_takes_there_is_nothing() {
        let available = Available::bytes(10).at_least(10);
        assert_eq!(available.maximum_volume_bytes, Some(10));
        assert_eq!(available.minimum_volume_bytes, Some(10));
        assert_eq!(Available::bytes(9).at_least(10), Available::bytes(0));
    }
}
