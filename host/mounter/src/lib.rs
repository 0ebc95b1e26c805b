//! The mounter as a process of its own: the trait `Mounter` over a Unix seqpacket socket.
//!
//! The process that serves clients and runs plugins then needs no right on the node: code that breaks out of a guest finds a socket on which
//! only whole, checked requests are understood.
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

pub use client::SocketMounter;
pub use protocol::{BootId, VERSION};
pub use server::{ServerOptions, serve};
