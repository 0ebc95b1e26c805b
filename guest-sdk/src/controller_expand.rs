//! Growth of a volume, the controller's part.
//!
//! It does not grow the file system: the host does, on the node.

use crate::bindings::controller_expand::exports::wasmount::csi::controller_expand::Guest;
use crate::error::Error;
use crate::export::Adapter;

pub use crate::bindings::controller_expand::exports::wasmount::csi::controller_expand::{
    ExpandArgs, Expanded,
};

/// The interface `controller-expand`.
pub trait ControllerExpand: 'static {
    /// `ControllerExpandVolume`: grows a volume to what is required and never shrinks it. Answers the size that it has then.
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error>;
}

impl<T: ControllerExpand> Guest for Adapter<T> {
    fn expand_volume(args: ExpandArgs) -> Result<Expanded, Error> {
        T::expand_volume(args)
    }
}

impl Expanded {
    /// Grown to this many bytes, with nothing left to do on the node.
    pub fn to(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            node_expansion_required: false,
        }
    }

    /// The node has something left to do if this says so: a file system to grow, or a block device to measure again.
    #[must_use]
    pub fn then_on_node(self, node_expansion_required: bool) -> Self {
        Self {
            node_expansion_required,
            ..self
        }
    }
}
