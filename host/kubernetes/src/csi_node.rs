//! CSINode and the labels and annotation of Node: compared with NodeGetInfo, and written by kubelet or, without one, by the host.
//!
//! `facts`, `drift`, `driver_state` and `install` decide; `watch`, `writer` and `reconciler` perform the requests.

mod drift;
mod driver_state;
mod facts;
mod install;
mod reconciler;
mod watch;
mod writer;

pub use reconciler::{CsiNodeReconciler, NodeWriter, Renewal, clear_to_register};
pub use watch::{Seen, watch};
pub use writer::Writer;
