//! The mounter as a separate process: the trait `Mounter` over a Unix socket.
//!
//! The process that serves clients and runs plugins then needs no privileges on the node: code that escapes from a guest only finds a socket that
//! accepts complete, checked requests.
//!
//! ```text
//! driver ──▶ client ══ one socket, one protocol ══▶ server ──▶ any Mounter
//!              └──────▶ channel ──▶ protocol ◀── channel ◀──────┘
//!                                      under_way: the running jobs of clients that are gone
//! ```

#![forbid(unsafe_code)]

mod channel;
mod client;
mod protocol;
mod server;
mod under_way;

pub use client::{STEPS, SocketMounter};
pub use protocol::{BootId, Step, VERSION};
pub use server::{REQUEST, ServerOptions, serve};
