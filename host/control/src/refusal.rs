//! How a host says no.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

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
