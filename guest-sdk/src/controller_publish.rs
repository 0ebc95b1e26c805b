//! Attaching a volume to a node and detaching it, for storage that needs it.
//!
//! It does not mount: that is the node's.

use crate::attributes::Attributes;
use crate::bindings::controller_publish::exports::wasmount::csi::controller_publish::Guest;
use crate::call;
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

impl ControllerPublishArgs {
    /// Refuses another node than the one where this host runs, with `not-found`: for storage that is reached from its own node alone. Away
    /// from the nodes any node may be meant.
    pub fn must_be_here(&self) -> Result<(), Error> {
        if call::node_name().is_none_or(|here| here == self.node) {
            return Ok(());
        }
        Err(Error::not_found(
            "the volume is reached from its own node alone, and this is another or none",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;
    use crate::volume::{AccessMode, AccessType, VolumeCapability};

    #[test]
    fn only_this_node_is_here_and_away_from_the_nodes_any() {
        testing::reset();
        let args = ControllerPublishArgs {
            id: "a".to_owned(),
            node: "node-1".to_owned(),
            capability: VolumeCapability {
                access_type: AccessType::Block,
                access_mode: AccessMode::SingleNodeWriter,
            },
            readonly: false,
            context: Vec::new(),
        };
        assert_eq!(args.must_be_here(), Ok(()));
        testing::set_node_name(Some("node-1"));
        assert_eq!(args.must_be_here(), Ok(()));
        testing::set_node_name(Some("node-2"));
        let code = args.must_be_here().map_err(|error| error.code);
        assert_eq!(code, Err(Code::NotFound));
    }
}
