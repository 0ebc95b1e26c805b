//! Attaching a volume to a node and detaching it, for storage that needs it. Apart because node-local and network file systems do not.
//!
//! It does not mount: that is the node's.

use crate::attributes::Attributes;
use crate::bindings::controller_publish::exports::wasmount::csi::controller_publish::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::volume::{NodeId, VolumeId};

pub use crate::bindings::controller_publish::exports::wasmount::csi::controller_publish::ControllerPublishArgs;

/// The interface `controller-publish`.
pub trait ControllerPublish: 'static {
    /// `ControllerPublishVolume`: makes the volume reachable from a node. Returns the publish context, which the node service sees.
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error>;

    /// `ControllerUnpublishVolume`: the reverse; without a node from all. An unknown volume or node is detached already.
    fn controller_unpublish_volume(id: VolumeId, node: Option<NodeId>) -> Result<(), Error>;
}

impl<T: ControllerPublish> Guest for Adapter<T> {
    fn controller_publish_volume(args: ControllerPublishArgs) -> Result<Attributes, Error> {
        T::controller_publish_volume(args)
    }

    fn controller_unpublish_volume(id: VolumeId, node: Option<NodeId>) -> Result<(), Error> {
        T::controller_unpublish_volume(id, node)
    }
}
