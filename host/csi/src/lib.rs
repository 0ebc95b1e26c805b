//! The CSI services of the host: gRPC over a Unix socket.
//!
//! The crate decodes a request, checks all of its fields, calls `core::driver`, and converts the answer or the error to CSI. It is a separate crate
//! so that tonic and protobuf stay in one place; it must not know mounts, guests or stores, and makes no decision about volumes.
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
mod trace_context;
pub mod wire;

pub use measure::CallMetrics;
