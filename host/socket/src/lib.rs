//! Unix sockets in the file system: how one comes into being, whether it still is ours, and how it goes.
//!
//! A socket appears under its name whole: its owner's alone from its first moment, and already listening. It never takes another process's place, and
//! at the end only the very file that was made is removed (a successor may have taken the name: its socket must stay).
//!
//! Everything here is a few system calls on a local directory. It knows no protocol and no runtime.

#![forbid(unsafe_code)]

mod bound;
mod error;
mod file;

pub use bound::{BoundSocket, Connections};
pub use error::SocketError;
pub use file::{SocketFile, SocketState, remove_stale};

/// Longest path of a Unix socket in bytes: `sun_path` has 108, the last one is NUL (unix(7)).
pub const SOCKET_PATH_BYTES: usize = 107;
