//! CSINode: where Kubernetes keeps what a driver said of its node.
//!
//! Beside a kubelet the host reads and compares; kubelet writes, and does it again when the driver registers again. Without one the host writes what
//! kubelet would. `facts` is what the driver says, `drift` what of it the objects do not say, `state` when to act on that, `install` what to write;
//! none of these opens anything. `watch`, `writer` and `reconciler` have the effects.

mod drift;
mod driver_state;
mod facts;
mod install;
mod node_ids;
mod reconciler;
mod watch;
mod writer;

pub use reconciler::{CsiNodeReconciler, NodeWriter, Renewal, clear_to_register};
pub use watch::{Observed, Seen, watch};
pub use writer::Writer;
