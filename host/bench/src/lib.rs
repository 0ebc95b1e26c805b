//! A load generator for any CSI socket: it calls a driver as kubelet and the sidecars do, measures from the client's side, and leaves nothing.
//!
//! ```text
//! run ─▶ subject ─▶ existing ─▶ phase (lanes side by side) ─▶ life ─▶ client ─▶ socket
//!   │       │                                     └─▶ measured
//!   │       └─▶ server, syncs   what the kernel knows of the driver's process
//!   └─▶ disk, ratio, report ─▶ html
//! ```
//!
//! It is a crate of its own so that what is measured does not share code with what measures, apart from the messages and the list of CSI's RPCs.

#![forbid(unsafe_code)]

mod client;
mod directories;
mod disk;
mod error;
mod existing;
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
mod subject;
mod syncs;

pub use error::BenchError;
pub use html::page;
pub use options::{Amount, Connections, Mix, Options};
pub use run::run;
pub use stop::Stop;
