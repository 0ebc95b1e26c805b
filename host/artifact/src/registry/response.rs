//! The response of a registry: its status, its error message, and its body within bounds.

use super::Registry;
use crate::access::Step;
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::Descriptor;
use crate::text::{REASON_CHARACTERS, shorten};
use reqwest::header::{HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use std::error::Error;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How much of an error message is read, in bytes, and shown, in characters, and how long to wait for it.
const MESSAGE_BYTES: usize = 4 << 10;
const MESSAGE_CHARACTERS: usize = 200;
const MESSAGE_TIME: Duration = Duration::from_secs(5);
/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: RegistryError,
    /// Another attempt can succeed, after this time at the earliest; none: it would fail in the same way.
    pub(super) retry: Option<Duration>,
}

/// The bound of a body's length.
#[derive(Clone, Copy)]
pub(super) enum Bound<'a> {
    AtMost(u64),
    /// Exactly the bytes of this descriptor; its size was checked before.
    Blob(&'a Descriptor),
}

/// The body of an error (OCI distribution specification 1.1, "Error Codes").
#[derive(Deserialize)]
struct ErrorBody {
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl From<RegistryError> for Failed {
    fn from(error: RegistryError) -> Self {
        let retry = None;
        Self { error, retry }
    }
}

impl Failed {
    pub(super) fn transient(error: RegistryError) -> Self {
        let retry = Some(Duration::ZERO);
        Self { error, retry }
    }
}

impl Registry {
    /// The response itself if it is successful.
    pub(super) async fn checked(&self, response: Response, what: &str) -> Result<Response, Failed> {
        let code = response.status();
        if code.is_success() {
            return Ok(response);
        }
        let retry = retry(code, header(response.headers(), &RETRY_AFTER));
        // Not always the registry: it may have redirected.
        let (what, host) = (what.to_owned(), place(response.url()));
        let words = error_message(response).await;
        let status = code.as_u16();
        let error = match code {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Other(format!(
                "{what}: the registry {host} does not allow it ({status}); {}{words}: give credentials that may (`registry.credentials` in a \
                 document, --registry-config of a command that has it)",
                self.access.credentials_sent()
            )),
            StatusCode::NOT_FOUND => RegistryError::NotFound { what, host },
            _ if retry.is_some() => RegistryError::Busy {
                what,
                host,
                status,
                attempts: 1,
                words,
            },
            _ => RegistryError::Refused {
                what,
                host,
                status,
                words,
            },
        };
        Err(Failed { error, retry })
    }

    /// Reads a whole response: counted as it arrives, never more than the bound, never silent for longer than the time limit.
    pub(super) async fn read(
        &self,
        mut response: Response,
        what: &str,
        bound: Bound<'_>,
    ) -> Result<Vec<u8>, Failed> {
        let (most, blob) = match bound {
            Bound::AtMost(most) => (most, None),
            Bound::Blob(blob) => (blob.size, Some(blob)),
        };
        let too_many = |got| match blob {
            None => RegistryError::TooLarge {
                what: what.to_owned(),
                most,
            },
            Some(blob) => RegistryError::WrongSize {
                what: what.to_owned(),
                wanted: blob.size,
                got,
            },
        };
        let truncated = |got: usize, reason: String| {
            Failed::transient(RegistryError::Truncated {
                what: what.to_owned(),
                host: self.host(),
                got: got as u64,
                reason,
            })
        };
        // An announced length above the bound: nothing is read.
        if let Some(length) = response.content_length()
            && (length > most || blob.is_some() && length != most)
        {
            return Err(too_many(length).into());
        }
        if blob.is_some() {
            (self.progress)(Step::Begins(most));
        }
        let mut bytes = Vec::new();
        loop {
            let silence = Instant::now() + self.access.limits.silence;
            let piece = match timeout_at(silence, response.chunk()).await {
                Err(_) => return Err(self.silent(what, self.host())),
                Ok(Err(error)) => {
                    return Err(truncated(bytes.len(), format!(" ({})", innermost(&error))));
                }
                Ok(Ok(None)) => break,
                Ok(Ok(Some(piece))) => piece,
            };
            let got = (bytes.len() as u64).saturating_add(piece.len() as u64);
            if got > most {
                return Err(too_many(got).into());
            }
            bytes.extend_from_slice(&piece);
            if blob.is_some() {
                (self.progress)(Step::Moved(piece.len() as u64));
            }
        }
        let Some(blob) = blob else {
            return Ok(bytes);
        };
        if (bytes.len() as u64) < blob.size {
            return Err(truncated(bytes.len(), String::new()));
        }
        let got = Digest::of(&bytes);
        if got != blob.digest {
            return Err(Failed::from(RegistryError::WrongDigest {
                what: what.to_owned(),
                wanted: blob.digest.to_string(),
                got: got.to_string(),
            }));
        }
        Ok(bytes)
    }
}

/// The host, and the port if one is named: on a machine of several registries the port identifies the registry. Never a user or a password.
pub(super) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The value of a header, if it is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// How long to wait for another response, if that may differ. The registry can request a time (RFC 9110, "Retry-After"); of its two forms the date is
/// ignored.
fn retry(status: StatusCode, after: Option<&str>) -> Option<Duration> {
    let is_transient = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT]
        .contains(&status)
        || status.is_server_error();
    let seconds = after.and_then(|text| text.trim().parse().ok());
    is_transient.then(|| Duration::from_secs(seconds.unwrap_or_default()))
}

/// The registry's error message besides the status, as the end of a sentence.
async fn error_message(mut response: Response) -> String {
    let by = Instant::now() + MESSAGE_TIME;
    let mut body = Vec::new();
    while body.len() <= MESSAGE_BYTES
        && let Ok(Ok(Some(piece))) = timeout_at(by, response.chunk()).await
    {
        body.extend_from_slice(&piece);
    }
    message(&body)
}

fn message(body: &[u8]) -> String {
    let body = serde_json::from_slice::<ErrorBody>(body).ok();
    let first = body.and_then(|body| body.errors.into_iter().next());
    let texts = first.map(|ErrorEntry { code, message }| [message, code]);
    let text = texts.and_then(|texts| texts.into_iter().find(|text| !text.is_empty()));
    text.map(|text| format!(" (`{}`)", shorten(&text, MESSAGE_CHARACTERS)))
        .unwrap_or_default()
}

/// The last error of a chain: the first ones only say that there is another.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    shorten(&last.to_string(), REASON_CHARACTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_statuses_are_retried() {
        for status in [408, 429, 500, 502, 503, 504] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(retry(status, None), Some(Duration::ZERO));
            let after = Some(Duration::from_secs(7));
            assert_eq!(retry(status, Some(" 7")), after);
            let date = "Wed, 21 Oct 2015 07:28:00 GMT";
            assert_eq!(retry(status, Some(date)), Some(Duration::ZERO));
        }
        for status in [301, 400, 401, 403, 404, 405, 416] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(retry(status, Some("7")), None);
        }
    }

    #[test]
    fn error_messages_are_shortened_and_made_visible() {
        let denied = br#"{"errors":[{"code":"DENIED","message":"not\nyou\u001b[31m"}]}"#;
        assert_eq!(message(denied), " (`not you [31m`)");
        assert_eq!(message(br#"{"errors":[{"code":"DENIED"}]}"#), " (`DENIED`)");
        for silent in [
            &b"<html>"[..],
            b"",
            b"{}",
            br#"{"errors":[]}"#,
            br#"{"errors":[{}]}"#,
        ] {
            assert_eq!(message(silent), "");
        }
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "a".repeat(1000));
        // With the text around it, and the mark that it was cut.
        let shown = message(long.as_bytes());
        assert_eq!(shown.chars().count(), MESSAGE_CHARACTERS + 6);
    }

    #[test]
    fn a_host_is_named_with_its_port_and_without_credentials() {
        for (from, named) in [
            ("https://a.b:5000/v2/", "a.b:5000"),
            ("https://a.b/v2/", "a.b"),
            ("http://ann:hunter2@[::1]:5000/", "[::1]:5000"),
        ] {
            assert_eq!(place(&from.parse().unwrap()), named);
        }
    }
}
