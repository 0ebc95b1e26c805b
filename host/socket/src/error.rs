//! Why a socket could not be created. One enum for the crate; every message names the path and, if a person can act, what to do.

use crate::SOCKET_PATH_BYTES;
use std::io;
use std::path::{Path, PathBuf};

/// Why a socket could not be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long; rejected before any change.
    #[error(
        "socket path {path} is {length} bytes long, the system takes {SOCKET_PATH_BYTES}: choose a shorter directory"
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// The path does not end in a file name.
    #[error("{path} cannot be the path of a socket: it does not end in a file name")]
    NoFileName {
        /// The path.
        path: PathBuf,
    },
    /// Another kind of file exists at the path; it is left alone.
    #[error("{path} is not a socket: remove it, or choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Another process accepts connections at the path.
    #[error("another process serves on {path}: stop it first")]
    Live {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("could not {operation} {path}")]
    System {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// For `map_err`.
pub(crate) fn system<E: Into<io::Error>>(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> SocketError {
    let path = path.to_owned();
    move |error| SocketError::System {
        operation,
        path,
        source: error.into(),
    }
}
