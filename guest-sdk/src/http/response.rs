//! An answer, and the CSI error that its status means.

use crate::attributes::AttributesExt;
use crate::error::{Code, Error};
use crate::http::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Bytes of a body that an error message repeats: enough for a sentence of the storage system.
const EXCERPT_BYTES: usize = 300;

/// Whole answer of a storage system.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    trailers: Vec<(String, String)>,
    body: Vec<u8>,
    /// What was asked, for messages.
    request: String,
}

impl Response {
    /// An answer without headers and body, for tests.
    pub fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            trailers: Vec::new(),
            body: Vec::new(),
            request: String::new(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Adds a trailer.
    #[must_use]
    pub fn with_trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(self, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    /// Sets the body to a value as JSON; to nothing if it cannot be written.
    #[must_use]
    pub fn with_json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        self.with_header("content-type", "application/json")
            .with_body(body)
    }

    /// The status, such as 404.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The value of a header, the first if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.value(&name.to_ascii_lowercase())
    }

    /// All values of a header.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let headers = self.headers.iter();
        let named = headers.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a trailer, such as `grpc-status`.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.value(&name.to_ascii_lowercase())
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as a value; `internal` if it is another. The status is not looked at.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        // Without serde's message, which may quote what must not be shown.
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::internal(format!(
                "{} was answered {} with a body that this version of the plugin cannot read, at line {}, column {}",
                self.request,
                self.status,
                error.line(),
                error.column()
            ))
        })
    }

    /// Itself if the status is 2xx, or else [`Response::error`].
    pub fn must_succeed(self) -> Result<Self, Error> {
        self.must_succeed_as(&[])
    }

    /// The same with other codes for some statuses: `&[(409, Code::FailedPrecondition)]`.
    pub fn must_succeed_as(self, codes: &[(u16, Code)]) -> Result<Self, Error> {
        if self.is_success() {
            return Ok(self);
        }
        let own = codes.iter().find(|(status, _)| *status == self.status);
        match own {
            Some((_, code)) => Err(Error::new(*code, self.message())),
            None => Err(self.error()),
        }
    }

    /// The answer if the status is 2xx, `None` for 404 and 410, or else [`Response::error`]: for a look-up.
    pub fn found(self) -> Result<Option<Self>, Error> {
        Error::found(self.must_succeed())
    }

    /// For a deletion: success if the object is gone, now or before (2xx, 404, 410); `failed-precondition` if it is in use (409), or else
    /// [`Response::error`].
    pub fn deleted(self) -> Result<(), Error> {
        let in_use = (409, Code::FailedPrecondition);
        Error::found(self.must_succeed_as(&[in_use])).map(drop)
    }

    /// The CSI error that the status means:
    ///
    /// | status | code |
    /// | --- | --- |
    /// | 400, 406, 411, 413, 414, 415, 422 | `invalid-argument` |
    /// | 401, 407 | `unauthenticated` |
    /// | 403 | `permission-denied` |
    /// | 404, 410 | `not-found` |
    /// | 409 | `already-exists` |
    /// | 412, 423, 428 | `aborted` |
    /// | 408, 425, 429, 500, 502, 503 and other 5xx | `unavailable` |
    /// | 504 | `deadline-exceeded` |
    /// | 507 | `resource-exhausted` |
    /// | 405, 501, 505 | `unimplemented` |
    /// | any other | `internal` |
    pub fn error(&self) -> Error {
        Error::new(code_of(self.status), self.message())
    }

    /// With the sentence of the storage system: the user reads it.
    fn message(&self) -> String {
        let said = String::from_utf8_lossy(self.body.get(..EXCERPT_BYTES).unwrap_or(&self.body));
        let said: Vec<_> = said
            .split(|it: char| it.is_control() || it.is_whitespace())
            .filter(|word| !word.is_empty())
            .collect();
        let mut message = format!("{} was answered {}", self.request, self.status);
        if let (300..400, Some(to)) = (self.status, self.header("location")) {
            let to: String = to.chars().take(EXCERPT_BYTES).collect();
            message.push_str(&format!(
                " to {to}, and the host follows redirects of GET and HEAD within the grant only"
            ));
        }
        if !said.is_empty() {
            message.push_str(": ");
            message.push_str(&said.join(" "));
        }
        message
    }

    /// The answer to a request.
    pub(crate) fn to(self, request: &Request) -> Self {
        let request = format!("{request:?}");
        Self { request, ..self }
    }
}

/// Without headers and body, which may hold what must not be shown.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} bytes", self.status, self.body.len())
    }
}

fn code_of(status: u16) -> Code {
    match status {
        400 | 406 | 411 | 413 | 414 | 415 | 422 => Code::InvalidArgument,
        401 | 407 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 | 410 => Code::NotFound,
        405 | 501 | 505 => Code::Unimplemented,
        409 => Code::AlreadyExists,
        412 | 423 | 428 => Code::Aborted,
        504 => Code::DeadlineExceeded,
        507 => Code::ResourceExhausted,
        408 | 425 | 429 | 500..=599 => Code::Unavailable,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    fn answered(status: u16, body: &str) -> Response {
        let request = http::get("array", "/api/volumes/1?all=true");
        Response::new(status).with_body(body).to(&request)
    }

    #[test]
    fn a_success_is_handed_on_with_its_content() {
        let answer = answered(201, "").with_json(&7).with_header("X-Next", "8");
        let answer = answer.must_succeed().unwrap();
        assert_eq!(answer.json(), Ok(7));
        assert_eq!(answer.header("x-nExt"), Some("8"));
        assert_eq!(answer.header("x-other"), None);
        assert_eq!(answered(204, "").found().map(|it| it.is_some()), Ok(true));
    }

    #[test]
    fn each_status_is_the_error_that_its_caller_acts_on() {
        for (status, code) in [
            (302, Code::Internal),
            (400, Code::InvalidArgument),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::NotFound),
            (405, Code::Unimplemented),
            (408, Code::Unavailable),
            (409, Code::AlreadyExists),
            (418, Code::Internal),
            (423, Code::Aborted),
            (429, Code::Unavailable),
            (500, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::DeadlineExceeded),
            (507, Code::ResourceExhausted),
            (599, Code::Unavailable),
        ] {
            let refused = answered(status, "").must_succeed();
            assert_eq!(refused.map_err(|error| error.code), Err(code), "{status}");
        }
    }

    #[test]
    fn an_error_says_what_was_asked_and_what_was_answered() {
        let error = answered(409, "{\n  \"error\": \"in use\"\n}\0").error();
        assert_eq!(
            error.message,
            "GET /api/volumes/1 of `array` was answered 409: { \"error\": \"in use\" }"
        );
        let moved = answered(302, "").with_header("Location", "https://other.example.com/");
        assert_eq!(
            moved.error().message,
            "GET /api/volumes/1 of `array` was answered 302 to https://other.example.com/, and the host follows redirects of GET and HEAD within the grant only"
        );
        let long = answered(500, &"x".repeat(1000)).error();
        assert_eq!(
            long.message.matches('x').count(),
            EXCERPT_BYTES,
            "{}",
            long.message
        );
    }

    #[test]
    fn a_plugin_may_give_a_status_another_code() {
        let codes = &[(409, Code::FailedPrecondition)];
        let code = |status| {
            let answer = answered(status, "").must_succeed_as(codes);
            answer.map(|it| it.status()).map_err(|error| error.code)
        };
        assert_eq!(code(409), Err(Code::FailedPrecondition));
        assert_eq!(code(404), Err(Code::NotFound));
        assert_eq!(code(200), Ok(200));
    }

    #[test]
    fn what_is_gone_is_not_found_and_no_error() {
        assert_eq!(answered(404, "").found(), Ok(None));
        assert_eq!(answered(410, "").found(), Ok(None));
        let broken = answered(503, "").found().map_err(|error| error.code);
        assert_eq!(broken, Err(Code::Unavailable));
    }

    #[test]
    fn what_is_gone_is_deleted_and_what_is_in_use_is_not() {
        for status in [200, 204, 404, 410] {
            assert_eq!(answered(status, "").deleted(), Ok(()), "{status}");
        }
        for (status, code) in [
            (409, Code::FailedPrecondition),
            (403, Code::PermissionDenied),
            (500, Code::Unavailable),
        ] {
            let kept = answered(status, "").deleted();
            assert_eq!(kept.map_err(|error| error.code), Err(code), "{status}");
        }
    }

    #[test]
    fn an_unreadable_body_is_an_error_that_does_not_quote_it() {
        let error = answered(200, "\"hunter2\"").json::<u64>().unwrap_err();
        assert_eq!(error.code, Code::Internal);
        assert!(!error.message.contains("hunter2"), "{}", error.message);
        assert_eq!(
            format!("{:?}", answered(200, "hunter2")),
            "200 with 7 bytes"
        );
    }
}
