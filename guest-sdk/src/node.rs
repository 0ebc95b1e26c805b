//! The services of the node: what the storage knows of this node, and what a volume is there.

use crate::error::Error;
use crate::plan::Plan;

/// The interface `node-hooks`. It cannot keep a volume: after three tries the host goes on.
#[doc(inline)]
pub use crate::bindings::node_hooks::interface::Guest as NodeHooks;
/// The interface `node-info`. What is absent in the answer the host fills in.
#[doc(inline)]
pub use crate::bindings::node_info::interface::Guest as NodeInfo;
pub use crate::bindings::node_info::interface::NodeDescription;
pub use crate::bindings::node_publish::interface::NodePublishArgs;
pub use crate::bindings::node_stage::interface::NodeStageArgs;

/// The interface `node-stage`. It does not mount and never unmounts: it records a [`Plan`], the rest is the host's.
pub trait NodeStage: 'static {
    /// `NodeStageVolume`: says through `plan` what the volume is. A repeated call is answered from the host's journal. No [`crate::state`]
    /// here.
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error>;
}

impl<T: NodeStage> crate::bindings::node_stage::interface::Guest for T {
    fn node_stage(args: NodeStageArgs) -> Result<(), Error> {
        <T as NodeStage>::node_stage(args, &Plan::of_this_call())
    }
}

/// The interface `node-publish`: what a volume is for one pod, for volumes without a stage step, such as inline ephemeral ones. It records a
/// [`Plan`] as well.
pub trait NodePublish: 'static {
    /// `NodePublishVolume`: says through `plan` what the volume is. With `requiresRepublish` it comes again and again: same plan, new
    /// content. No [`crate::state`] here.
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error>;
}

impl<T: NodePublish> crate::bindings::node_publish::interface::Guest for T {
    fn node_publish(args: NodePublishArgs) -> Result<(), Error> {
        <T as NodePublish>::node_publish(args, &Plan::of_this_call())
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
