//! What the status of an answer means.

use super::failed::Failed;
use super::{Registry, header};
use crate::error::RegistryError;
use crate::origin;
use crate::patience::Again;
use crate::words::short;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// How much of an explanation is read, in bytes, how much of it is shown, in characters, and how long is waited for it.
const WORDS_BYTES: usize = 4 << 10;
const WORDS_CHARACTERS: usize = 200;
const WORDS_TIME: Duration = Duration::from_secs(5);

/// OCI distribution specification 1.1, "Error Codes".
#[derive(Deserialize)]
struct Explanation {
    errors: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Registry {
    /// The answer itself if it is a good one.
    pub(super) async fn judged(
        &self,
        response: Response<Incoming>,
        what: &str,
        asked: &Uri,
    ) -> Result<Response<Incoming>, Failed> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let again = again(status, header(response.headers(), RETRY_AFTER.as_str()));
        let words = explanation(response).await;
        let what = what.to_owned();
        // Not always the registry: it may have sent us on.
        let host = origin::place(asked);
        let number = status.as_u16();
        let error = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Unauthorised {
                what,
                host,
                status: number,
                credentials: self.access.credentials.to_string(),
                words,
            },
            StatusCode::NOT_FOUND => RegistryError::NotFound { what, host },
            _ if again != Again::Never => RegistryError::Busy {
                what,
                host,
                status: number,
                attempts: 1,
                words,
            },
            _ => RegistryError::Refused {
                what,
                host,
                status: number,
                words,
            },
        };
        Err(Failed { error, again })
    }
}

/// Whether an answer of this status may be another one later. `wished` is the header `Retry-After`; of its two forms the date is passed over.
fn again(status: StatusCode, wished: Option<&str>) -> Again {
    let may_pass = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&status)
        || status.is_server_error();
    let seconds = wished.and_then(|text| text.trim().parse().ok());
    match (may_pass, seconds) {
        (false, _) => Again::Never,
        (true, None) => Again::Soon,
        (true, Some(seconds)) => Again::After(Duration::from_secs(seconds)),
    }
}

/// What the registry says beside the status, as the end of a sentence.
async fn explanation(response: Response<Incoming>) -> String {
    let body = Limited::new(response.into_body(), WORDS_BYTES).collect();
    match timeout(WORDS_TIME, body).await {
        Ok(Ok(body)) => words(&body.to_bytes()),
        _ => String::new(),
    }
}

fn words(body: &[u8]) -> String {
    let Ok(Explanation { errors }) = serde_json::from_slice(body) else {
        return String::new();
    };
    let Some(One { code, message }) = errors.into_iter().next() else {
        return String::new();
    };
    let said = match (code.is_empty(), message.is_empty()) {
        (_, false) => message,
        (false, true) => code,
        (true, true) => return String::new(),
    };
    format!(" (`{}`)", short(&said, WORDS_CHARACTERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for status in [408, 429, 500, 502, 503, 504] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(again(status, None), Again::Soon);
            let after = Again::After(Duration::from_secs(7));
            assert_eq!(again(status, Some(" 7")), after);
            let date = "Wed, 21 Oct 2015 07:28:00 GMT";
            assert_eq!(again(status, Some(date)), Again::Soon);
        }
        for status in [301, 400, 401, 403, 404, 405, 416] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(again(status, Some("7")), Again::Never);
        }
    }

    #[test]
    fn the_words_of_a_registry_are_short_and_visible() {
        let denied = br#"{"errors":[{"code":"DENIED","message":"not\nyou\u001b[31m"}]}"#;
        assert_eq!(words(denied), " (`not you [31m`)");
        assert_eq!(words(br#"{"errors":[{"code":"DENIED"}]}"#), " (`DENIED`)");
        for silent in [
            &b"<html>"[..],
            b"",
            b"{}",
            br#"{"errors":[]}"#,
            br#"{"errors":[{}]}"#,
        ] {
            assert_eq!(words(silent), "");
        }
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "a".repeat(1000));
        // With what is around it, and the sign that it was cut.
        let shown = words(long.as_bytes());
        assert_eq!(shown.chars().count(), WORDS_CHARACTERS + 6);
    }
}
