//! What the storage knows of this node.
//!
//! It does not register the node: the host does.

use crate::bindings::node_info::exports::wasmount::csi::node_info::Guest;
use crate::error::Error;
use crate::export::Adapter;

pub use crate::bindings::node_info::exports::wasmount::csi::node_info::NodeDescription;

/// The interface `node-info`.
pub trait NodeInfo: 'static {
    /// `NodeGetInfo`: id, limit and topology of this node; what is absent the host fills in.
    fn get_node_info() -> Result<NodeDescription, Error>;
}

impl<T: NodeInfo> Guest for Adapter<T> {
    fn get_node_info() -> Result<NodeDescription, Error> {
        T::get_node_info()
    }
}
