//! Why a command has no answer. Every message names the socket and what to do.

use crate::refusal::Refusal;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error(
        "no host serves at {}: start `wasmount serve`, or name its data directory (--data-dir) or admin socket (--admin-socket)", .path.display()
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Another user's host.
    #[error(
        "the admin socket {} is not this user's: only root, and the user that the host runs as, may ask it", .path.display()
    )]
    Forbidden {
        /// The socket.
        path: PathBuf,
    },
    /// The system failed the connection.
    #[error("the admin socket {} cannot be used: {source}", .path.display())]
    Connection {
        /// The socket.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The host stopped in the middle, or speaks otherwise.
    #[error("the host at {} did not answer as it should: {reason}; its log says more", .path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// It takes too long.
    #[error("the host at {} has not answered for {} s; what was asked may still be done", .path.display(), .patience.as_secs())]
    TooSlow {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
    /// No driver has such a name.
    #[error("`{word}` cannot be a driver's name, which has letters, digits, `-` and `.` only")]
    NoDriver {
        /// What was given.
        word: String,
    },
    /// The host says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
