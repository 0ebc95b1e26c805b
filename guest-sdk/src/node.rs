//! The services of the node: what the storage reports about this node, and the plan of a volume there.

use crate::error::Error;
use crate::plan::Plan;

/// The interface `node-hooks`. It cannot block teardown: after three tries the host continues.
#[doc(inline)]
pub use crate::bindings::node_hooks::interface::Guest as NodeHooks;
/// The interface `node-info`. The host fills in what is absent in the answer.
#[doc(inline)]
pub use crate::bindings::node_info::interface::Guest as NodeInfo;
pub use crate::bindings::node_info::interface::NodeDescription;
pub use crate::bindings::node_publish::interface::NodePublishArgs;
pub use crate::bindings::node_stage::interface::NodeStageArgs;

/// The interface `node-stage`. It does not mount and never unmounts: it records a [`Plan`], which the host executes.
pub trait NodeStage: 'static {
    /// `NodeStageVolume`: records in `plan` what the volume is. The host answers a repeated call from its journal. [`crate::state`] is not available
    /// here.
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error>;
}

impl<T: NodeStage> crate::bindings::node_stage::interface::Guest for T {
    fn node_stage(args: NodeStageArgs) -> Result<(), Error> {
        <T as NodeStage>::node_stage(args, &Plan::of_this_call())
    }
}

/// The interface `node-publish`: the plan of a volume for one pod, for volumes without a stage step, such as inline ephemeral ones. It also records a
/// [`Plan`].
pub trait NodePublish: 'static {
    /// `NodePublishVolume`: records in `plan` what the volume is. With `requiresRepublish` kubelet repeats the call: same plan, new content.
    /// [`crate::state`] is not available here.
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error>;
}

impl<T: NodePublish> crate::bindings::node_publish::interface::Guest for T {
    fn node_publish(args: NodePublishArgs) -> Result<(), Error> {
        <T as NodePublish>::node_publish(args, &Plan::of_this_call())
    }
}

impl NodePublishArgs {
    /// Rejects anything but an inline volume of a pod, with `failed-precondition`: for backends whose other volumes are staged first.
    pub fn must_be_ephemeral(&self) -> Result<(), Error> {
        if self.ephemeral {
            return Ok(());
        }
        Err(Error::failed_precondition(
            "the volume is not staged: stage it first",
        ))
    }
}
