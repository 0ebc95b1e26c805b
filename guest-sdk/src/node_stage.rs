//! What a volume is on this node.
//!
//! It does not mount and never unmounts: it records a [`Plan`], the rest is the host's.

use crate::bindings::node_stage::exports::wasmount::csi::node_stage::Guest;
use crate::error::Error;
use crate::export::Adapter;
use crate::plan::Plan;

pub use crate::bindings::node_stage::exports::wasmount::csi::node_stage::NodeStageArgs;

/// The interface `node-stage`.
pub trait NodeStage: 'static {
    /// `NodeStageVolume`: says through `plan` what the volume is. A repeated call is answered from the host's journal. No [`crate::state`]
    /// here.
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error>;
}

impl<T: NodeStage> Guest for Adapter<T> {
    fn node_stage(args: NodeStageArgs) -> Result<(), Error> {
        T::node_stage(args, &Plan::of_this_call())
    }
}
