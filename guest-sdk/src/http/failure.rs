//! Why there is no answer, and the CSI error for it: a client that repeats a call must know whether the request may have been carried out.

use crate::error::Error;
use crate::http::Request;

/// Why there is no answer.
#[cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "the network of a test fails in fewer ways")
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The document does not grant it. The host adds the lines that would.
    NotGranted,
    /// Before a version serves nothing leaves the host.
    NotServing,
    /// It did not reach the storage system.
    NotSent(String),
    /// It may have been carried out.
    Lost(String),
    /// No answer in time; it may have been carried out.
    TimedOut,
    /// The answer exceeds a bound of the grant.
    TooLarge,
    /// In the host's own words, which say whether it was sent.
    Other(String),
}

impl Failure {
    pub(crate) fn into_error(self, request: &Request) -> Error {
        match self {
            Self::NotGranted => Error::permission_denied(format!("the host denies {request:?}")),
            Self::NotServing => Error::unavailable(format!(
                "{request:?} was not sent: this version does not serve yet"
            )),
            Self::NotSent(why) => Error::unavailable(format!("{request:?} was not sent: {why}")),
            Self::Lost(why) => Error::unavailable(format!(
                "{request:?} may have been carried out, its answer is lost: {why}"
            )),
            Self::TimedOut => Error::deadline_exceeded(format!(
                "{request:?} may have been carried out: no answer in time"
            )),
            Self::TooLarge => Error::internal(format!(
                "the answer to {request:?} is larger than `maxBody` of the grant: raise it"
            )),
            Self::Other(why) => Error::unavailable(format!("{request:?}: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::http;

    #[test]
    fn an_error_says_whether_the_request_was_sent() {
        let why = || "reset".to_owned();
        for (failure, code, word) in [
            (Failure::NotGranted, Code::PermissionDenied, "denies"),
            (Failure::NotServing, Code::Unavailable, "was not sent"),
            (
                Failure::NotSent(why()),
                Code::Unavailable,
                "was not sent: reset",
            ),
            (
                Failure::Lost(why()),
                Code::Unavailable,
                "may have been carried out",
            ),
            (
                Failure::TimedOut,
                Code::DeadlineExceeded,
                "may have been carried out",
            ),
            (Failure::TooLarge, Code::Internal, "maxBody"),
            (Failure::Other(why()), Code::Unavailable, "reset"),
        ] {
            let error = failure.into_error(&http::post("array", "/api"));
            assert_eq!(error.code, code, "{}", error.message);
            assert!(error.message.contains(word), "{}", error.message);
            assert!(error.message.contains("POST /api of `array`"));
        }
    }
}
