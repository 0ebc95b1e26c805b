//! The API of the admin socket: requests, answers, and their transport as HTTP and JSON over a Unix socket.
//!
//! Commands and host share these files and nothing else, so this is a crate. It defines the messages and carries out none: the host passes its routes
//! to [`serve`], a command uses a [`Client`].
//!
//! ```text
//! command ──▶ client ══ one connection, one request ══▶ serve ──▶ the host's routes
//!               └──────────▶ messages, paths, error ◀──────────────┘
//! ```
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod messages;
pub mod paths;
mod server;

pub use client::Client;
pub use error::{ControlError, Refusal, RefusalKind};
pub use server::{Peer, ServerLimits, serve};

/// Largest answer, in bytes. 16 MiB: the volumes of a node with 50,000 of them.
const ANSWER_BYTES: usize = 16 << 20;
