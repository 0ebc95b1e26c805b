//! Why a socket could not be had. One enum for the crate; every message names the path and, where a person can act, what to do.

use crate::SOCKET_PATH_BYTES;
use std::io;
use std::path::{Path, PathBuf};

/// Why a socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Refused before anything is touched.
    #[error(
        "socket path {path} is {length} bytes long, the system takes {SOCKET_PATH_BYTES}: choose a shorter directory"
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// Has no name at its end.
    #[error("{path} cannot be the path of a socket: it does not end in a file name")]
    NoFileName {
        /// The path.
        path: PathBuf,
    },
    /// Something else lies there; it is left alone.
    #[error("{path} is not a socket: remove it, or choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Somebody accepts connections there.
    #[error("another process serves on {path}: stop it first")]
    Live {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("could not {operation} {path}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
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
