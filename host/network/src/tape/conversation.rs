//! The file of a tape: requests and their outcomes in order, as JSON that people can read and change.

use super::TapeError;
use super::placeholders::Replacer;
use crate::connector::Response;
use crate::error::SendError;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use wasmount_core::text::shortened;

/// Largest file, in bytes: four times the bodies that are recorded, for hexadecimal digits and indentation.
pub const TAPE_FILE_BYTES: u64 = 64 << 20;
/// The form of the file. A change that an older host cannot read is the next number.
const FORMAT: u32 = 1;
/// Most bytes of a body in a message: enough to see a difference between requests of some fields.
const SHOWN_BYTES: usize = 1024;

/// The requests of one call and their outcomes, without the values of secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    format: u32,
    exchanges: Vec<Exchange>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    pub(super) request: TapedRequest,
    pub(super) outcome: Outcome,
}

/// A request as the plugin named it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TapedRequest {
    method: String,
    target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Content>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Outcome {
    Answer(Answer),
    /// The message is for people.
    Failure {
        message: String,
        error: SendError,
    },
}

/// An answer as the plugin got it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Answer {
    status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Content>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    trailers: Vec<(String, String)>,
    /// An earlier attempt may have been executed: the call then ends as after a change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    after_unknown: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Json(Value),
    Text(String),
    Hex(String),
}

impl Conversation {
    pub(super) fn of(exchanges: Vec<Exchange>) -> Self {
        Self {
            format: FORMAT,
            exchanges,
        }
    }

    /// Reads a file. All of its answers can be given afterwards.
    pub fn parse(file: &[u8]) -> Result<Self, TapeError> {
        let format: Value =
            serde_json::from_slice(file).map_err(|error| TapeError::Foreign(error.to_string()))?;
        match format.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(other) => return Err(TapeError::Format(other)),
            None => return Err(TapeError::Foreign("it has no `format`".to_owned())),
        }
        let read: Self = serde_json::from_value(format)
            .map_err(|error| TapeError::Foreign(error.to_string()))?;
        let nothing = Replacer::hiding(&Default::default(), &Default::default(), &[])?;
        for (at, exchange) in (1..).zip(&read.exchanges) {
            if let Outcome::Answer(answer) = &exchange.outcome
                && answer.response(&nothing).is_none()
            {
                let reason = format!("the answer to request {at} is no answer of HTTP");
                return Err(TapeError::Foreign(reason));
            }
        }
        Ok(read)
    }

    /// The text of the file.
    pub fn to_json(&self) -> Result<Vec<u8>, TapeError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| TapeError::Foreign(error.to_string()))?;
        text.push(b'\n');
        match u64::try_from(text.len()) {
            Ok(bytes) if bytes <= TAPE_FILE_BYTES => Ok(text),
            _ => Err(TapeError::TooLarge),
        }
    }

    /// Each request, and its status or error.
    pub fn lines(&self) -> impl Iterator<Item = (String, String)> {
        self.exchanges.iter().map(|exchange| {
            let TapedRequest { method, target, .. } = &exchange.request;
            let outcome = match &exchange.outcome {
                Outcome::Answer(answer) => answer.status.to_string(),
                Outcome::Failure { message, .. } => message.clone(),
            };
            (format!("{method} {target}"), outcome)
        })
    }

    pub(super) fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }
}

impl TapedRequest {
    pub(super) fn of(request: &Request<Bytes>, hiding: &Replacer) -> Self {
        let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
        let grant = request.uri().host().unwrap_or_default();
        Self {
            method: request.method().to_string(),
            target: hiding.text(&format!("http://{grant}{target}")),
            body: Content::of(request.body(), hiding),
        }
    }
}

/// One line of bounded length.
impl fmt::Display for TapedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match &self.body {
            None => String::new(),
            Some(Content::Json(value)) => format!(" {value}"),
            Some(Content::Text(text)) => format!(" {text:?}"),
            Some(Content::Hex(digits)) => format!(" {digits}"),
        };
        let body = shortened(body, SHOWN_BYTES);
        write!(f, "{} {}{body}", self.method, self.target)
    }
}

impl Outcome {
    pub(super) fn failure(mut error: SendError, hiding: &Replacer) -> Self {
        if let Some(reason) = error.reason_mut() {
            *reason = hiding.text(reason);
        }
        Self::Failure {
            message: error.to_string(),
            error,
        }
    }
}

impl Answer {
    pub(super) fn of(response: &Response, hiding: &Replacer) -> Self {
        let pairs = |headers: &HeaderMap| {
            let pairs = headers.iter();
            pairs
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    (name.to_string(), hiding.text(&value))
                })
                .collect()
        };
        Self {
            status: response.parts.status.as_u16(),
            headers: pairs(&response.parts.headers),
            body: Content::of(&response.body, hiding),
            trailers: pairs(&response.trailers),
            after_unknown: response.after_unknown,
        }
    }

    /// The answer for the plugin; none: it is no answer of HTTP.
    pub(super) fn response(&self, restoring: &Replacer) -> Option<Response> {
        let headers = |pairs: &[(String, String)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| {
                    let value = HeaderValue::try_from(restoring.text(value)).ok()?;
                    Some((HeaderName::try_from(name).ok()?, value))
                })
                .collect::<Option<HeaderMap>>()
        };
        let body = match &self.body {
            None => Vec::new(),
            Some(Content::Json(value)) => restoring.json(value.clone()).to_string().into_bytes(),
            Some(Content::Text(text)) => restoring.text(text).into_bytes(),
            Some(Content::Hex(digits)) => restoring.bytes(&hex::decode(digits).ok()?),
        };
        let mut response = http::Response::new(());
        *response.status_mut() = StatusCode::from_u16(self.status).ok()?;
        *response.headers_mut() = headers(&self.headers)?;
        // JSON was written anew, and secrets may have another length.
        if !body.is_empty() && response.headers().contains_key(CONTENT_LENGTH) {
            response
                .headers_mut()
                .insert(CONTENT_LENGTH, body.len().into());
        }
        Some(Response {
            parts: response.into_parts().0,
            body: body.into(),
            trailers: headers(&self.trailers)?,
            after_unknown: self.after_unknown,
        })
    }
}

impl Content {
    fn of(body: &[u8], hiding: &Replacer) -> Option<Self> {
        if body.is_empty() {
            return None;
        }
        let json: Option<Value> = serde_json::from_slice(body).ok();
        Some(match (json, std::str::from_utf8(body)) {
            (Some(json @ (Value::Object(_) | Value::Array(_))), _) => Self::Json(hiding.json(json)),
            (_, Ok(text)) => Self::Text(hiding.text(text)),
            (_, Err(_)) => Self::Hex(hex::encode(hiding.bytes(body))),
        })
    }
}
