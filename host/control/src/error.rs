//! Why a command has no answer, and how a host refuses. Every message says what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
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

/// What a host answers in place of what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Refusal {
    /// What kind.
    pub kind: RefusalKind,
    /// In words, with what to do.
    pub message: String,
}

/// What kind of no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request makes no sense.
    Malformed,
    /// Whoever asks may not.
    Forbidden,
    /// No driver of that name, or no version of that number.
    NotFound,
    /// A version may not serve, or nothing is there to go back to.
    Refused,
    /// Volumes are in use.
    InUse,
    /// Too much is asked at a time, or the host is going down.
    Busy,
    /// A fault of the host.
    Failed,
}

impl Refusal {
    /// One of a kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    fn status(&self) -> StatusCode {
        match self.kind {
            RefusalKind::Malformed => StatusCode::BAD_REQUEST,
            RefusalKind::Forbidden => StatusCode::FORBIDDEN,
            RefusalKind::NotFound => StatusCode::NOT_FOUND,
            RefusalKind::Refused | RefusalKind::InUse => StatusCode::CONFLICT,
            RefusalKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
            RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), Json(self)).into_response()
    }
}
