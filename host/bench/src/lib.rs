//! A load generator for any CSI socket: it calls a driver as kubelet and the sidecars do, measures from the client's side, and leaves nothing.
//!
//! ```text
//! run ─▶ phase (lanes side by side) ─▶ life ─▶ client ─▶ socket
//!   │                                   └─▶ measured
//!   ├─▶ server, syncs, disk     what the kernel knows of the driver's process and of the disk
//!   └─▶ ratio, report ─▶ html
//! ```
//!
//! It is a crate of its own so that what is measured does not share code with what measures, apart from the messages and the list of CSI's RPCs.

#![forbid(unsafe_code)]

mod client;
mod directories;
mod disk;
mod html;
mod life;
mod measured;
mod options;
mod phase;
mod plan;
mod plot;
mod ratio;
pub mod report;
mod run;
mod server;
mod stop;
mod syncs;

pub use html::page;
pub use options::{Amount, Connections, Mix, Options};
pub use run::{BenchError, run};
pub use stop::Stop;
