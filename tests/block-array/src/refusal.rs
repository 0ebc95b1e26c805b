//! Why an array does not do something: a status of HTTP and a sentence.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use xtask::failure::Failure;

/// A status and a sentence.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    why: String,
}

/// The result of a request.
pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

impl From<Failure> for Refusal {
    /// A fault of the array itself.
    fn from(failure: Failure) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, failure.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = json!({ "error": self.why });
        (self.status, Json(error)).into_response()
    }
}

/// It is not there.
pub(crate) fn missing() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "no such object")
}

/// It is in the way of something else.
pub(crate) fn conflict(why: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, why)
}

/// It makes no sense.
pub(crate) fn unprocessable(why: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why)
}

/// There is no space for it.
pub(crate) fn full(why: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::INSUFFICIENT_STORAGE, why)
}
