//! To be told before a volume goes from this node.
//!
//! It cannot keep a volume: after three tries the host goes on.

use crate::attributes::Attributes;
use crate::bindings::node_hooks::exports::wasmount::csi::node_hooks::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::VolumeId;

/// The interface `node-hooks`.
pub trait NodeHooks: 'static {
    /// Called in `NodeUnstageVolume` before anything is undone, with the notes of the plan ([`crate::Plan::note`]). Asked at most three
    /// times.
    fn before_unstage(id: VolumeId, notes: Attributes) -> Result<(), Error>;
}

impl<T: NodeHooks> Guest for Adapter<T> {
    fn before_unstage(id: VolumeId, notes: Attributes) -> Result<(), Error> {
        T::before_unstage(id, notes)
    }
}
