//! Unix sockets in the file system: creating them, checking that they are still ours, and removing them.
//!
//! A socket appears at its path complete: accessible to its owner only from the first moment, and already listening. It never replaces another
//! process's socket, and at the end only the file that was created is removed (a successor may use the path: its socket must stay).
//!
//! All operations are a few system calls on a local directory. This crate knows no protocol and no runtime.

#![forbid(unsafe_code)]

mod bound;
mod error;
mod file;

pub use bound::BoundSocket;
pub use error::SocketError;
pub use file::{SocketFile, SocketState, remove_stale};

/// Longest path of a Unix socket in bytes: `sun_path` has 108, the last one is NUL (unix(7)).
pub const SOCKET_PATH_BYTES: usize = 107;
