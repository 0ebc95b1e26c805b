//! The CSI face of the host: gRPC over a Unix socket.
//!
//! It decodes a request, checks every word of it, calls `core::driver`, and turns the answer or the error back into CSI's words. It is apart
//! so that tonic and protobuf stay in one crate; it must not know mounts, guests or stores, and decides nothing about volumes.
//!
//! ```text
//! socket ─▶ server ─▶ service (the table) ─▶ rpc ─▶ parse ─▶ core::driver
//! by_name ──────────┘                           ◀─ answer ◀─┘
//!                                               ◀─ status ◀─┘ (errors)
//! ```

#![forbid(unsafe_code)]

mod accept;
mod answer;
mod authority;
pub mod by_name;
mod error;
mod inbound;
mod measure;
mod page_token;
mod parse;
mod rpc;
pub mod server;
mod service;
mod status;
mod stream;
pub mod wire;

pub use measure::CallMetrics;
