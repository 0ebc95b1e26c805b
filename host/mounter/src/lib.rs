//! The mount room as a process of its own: the trait `Mounter` over a Unix seqpacket socket.
//!
//! It is apart so that the process that serves clients and runs plugins needs no right on the node: whoever breaks out of a guest finds a
//! socket on which only whole, checked requests are understood. It knows neither mounts nor gRPC nor wasm: what a request does is the
//! `Mounter`'s that it serves.
//!
//! ```text
//! driver ──▶ client ══ one socket, one protocol ══▶ server ──▶ any Mounter
//!              └──────▶ channel ──▶ protocol ◀── channel ◀──────┘
//!                                      under_way: what a client that is gone still has running
//! ```

#![forbid(unsafe_code)]

mod channel;
mod client;
mod perform;
mod protocol;
mod server;
mod under_way;

pub use client::SocketMounter;
pub use protocol::{BootId, VERSION};
pub use server::{ServerOptions, serve};
