//! What a volume is for one pod, for volumes without a stage step, such as inline ephemeral ones.
//!
//! It does not mount and never unmounts: it records a [`Plan`], the rest is the host's.

use crate::bindings::node_publish::exports::wasmount::csi::node_publish::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::plan::Plan;

pub use crate::bindings::node_publish::exports::wasmount::csi::node_publish::NodePublishArgs;

/// The interface `node-publish`.
pub trait NodePublish: 'static {
    /// `NodePublishVolume`: says through `plan` what the volume is. With `requiresRepublish` it comes again and again: same plan, new
    /// content. No [`crate::state`] here.
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error>;
}

impl<T: NodePublish> Guest for Adapter<T> {
    fn node_publish(args: NodePublishArgs) -> Result<(), Error> {
        T::node_publish(args, &Plan::of_this_call())
    }
}

impl NodePublishArgs {
    /// Refuses anything but an inline volume of a pod, with `failed-precondition`: for backends whose other volumes are staged first.
    pub fn must_be_ephemeral(&self) -> Result<(), Error> {
        if self.ephemeral {
            return Ok(());
        }
        Err(Error::failed_precondition(
            "the volume is not staged: stage it first",
        ))
    }
}
