//! The words of the admin socket: what an administrator may ask a running host, what it answers, how both cross a Unix socket as HTTP and JSON.
//!
//! It is apart so that commands and host agree on these files and on nothing else. It knows what is said, never what is done: a host joins
//! [`serve`] to its own routes, a command has a [`Client`].
//!
//! ```text
//! command ──▶ client ══ one connection, one request ══▶ serve ──▶ the host's routes
//!               └──────────▶ words, paths, error ◀─────────────────┘
//! ```
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod paths;
mod server;
pub mod words;

pub use client::Client;
pub use error::{ControlError, Refusal, RefusalKind};
pub use server::{ServerLimits, serve};

/// Largest answer, in bytes. 16 MiB: the volumes of a node with 50,000 of them.
const ANSWER_BYTES: usize = 16 << 20;
