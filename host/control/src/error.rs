//! Why a command failed, and how a host rejects a request. Every message says what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No host listens on the socket.
    #[error(
        "no host serves at {}: start `wasmount serve`, or name its data directory (--data-dir) or admin socket (--admin-socket)", .path.display()
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// The path is that of a file or a directory.
    #[error(
        "{} is not a socket: name the admin socket of a host, which is admin.sock in its data directory unless it was started with --admin-socket", .path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket belongs to another user's host.
    #[error(
        "the admin socket {} is not accessible to this user: only root and the user of the host may use it", .path.display()
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
        /// The error of the system.
        source: io::Error,
    },
    /// The host stopped before it answered, or its answer cannot be parsed.
    #[error("the host at {} did not answer as it should: {reason}; its log says more", .path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The answer did not arrive in time.
    #[error("the host at {} has not answered for {} s; the request may still be carried out", .path.display(), .timeout.as_secs())]
    TooSlow {
        /// The socket.
        path: PathBuf,
        /// The time limit.
        timeout: Duration,
    },
    /// No driver has such a name.
    #[error("`{name}` cannot be a driver's name, which has letters, digits, `-` and `.` only")]
    NoDriver {
        /// The name that was given.
        name: String,
    },
    /// The host rejected the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The answer of a host that rejects a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Refusal {
    /// The kind.
    pub kind: RefusalKind,
    /// A message that says what to do.
    pub message: String,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request is malformed.
    Malformed,
    /// The client is not allowed to connect.
    Forbidden,
    /// No driver of that name, or no version of that number.
    NotFound,
    /// A version may not serve, or there is no version to roll back to.
    Refused,
    /// Volumes are in use.
    InUse,
    /// Too many requests at a time, or the host is shutting down.
    Busy,
    /// A fault of the host.
    Failed,
}

impl Refusal {
    /// A rejection of this kind.
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
