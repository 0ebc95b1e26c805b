//! The file of a tape: requests and their outcomes in order, as JSON that people can read and change.

use super::TapeError;
use super::placeholders::Replacer;
use crate::connector::Response;
use crate::error::SendError;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use wasmount_core::text::shortened;

/// Largest file, in bytes: four times the bodies that are recorded, for hexadecimal digits and indentation.
pub const TAPE_FILE_BYTES: u64 = 64 << 20;
/// The form of the file. A change that an older host cannot read is the next number.
const FORMAT: u64 = 1;
/// Most bytes of a body in a message: enough to see a difference between requests of some fields.
const SHOWN_BYTES: usize = 1024;
/// Takes the place of a header whose secret has a value that no header can have.
const UNFIT: HeaderValue = HeaderValue::from_static("{unfit}");

/// The requests of one call and their outcomes, without the values of secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    format: u64,
    pub(super) exchanges: Vec<Exchange>,
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

/// What the plugin got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Answer(Answer),
    Failure(SendError),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Answer {
    #[serde(with = "http_serde::status_code")]
    status: StatusCode,
    #[serde(with = "http_serde::header_map", default)]
    headers: HeaderMap,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Content>,
    /// An earlier attempt may have been executed: the call then ends as after a change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    after_unknown: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Json(Value),
    Text(String),
    Hex(#[serde(with = "hex")] Vec<u8>),
}

impl Conversation {
    pub(super) fn of(exchanges: Vec<Exchange>) -> Self {
        Self {
            format: FORMAT,
            exchanges,
        }
    }

    /// Reads a file.
    pub fn parse(file: &[u8]) -> Result<Self, TapeError> {
        let foreign = |error: serde_json::Error| TapeError::Foreign(error.to_string());
        let value: Value = serde_json::from_slice(file).map_err(foreign)?;
        let reason = match value.get("format").and_then(Value::as_u64) {
            Some(FORMAT) => return serde_json::from_value(value).map_err(foreign),
            Some(other) => format!(
                "it has the format {other}, and this host reads format {FORMAT}; record it again"
            ),
            None => "it has no `format`".to_owned(),
        };
        Err(TapeError::Foreign(reason))
    }

    /// The text of the file.
    pub fn to_json(&self) -> Result<Vec<u8>, TapeError> {
        let text = serde_json::to_vec_pretty(self);
        let mut text = text.map_err(|error| TapeError::Foreign(error.to_string()))?;
        text.push(b'\n');
        let has_room = u64::try_from(text.len()).is_ok_and(|bytes| bytes <= TAPE_FILE_BYTES);
        has_room.then_some(text).ok_or(TapeError::TooLarge)
    }

    /// Each request, and its status or error.
    pub fn lines(&self) -> impl Iterator<Item = (String, String)> {
        self.exchanges.iter().map(|exchange| {
            let TapedRequest { method, target, .. } = &exchange.request;
            let outcome = match &exchange.outcome {
                Outcome::Answer(answer) => answer.status.as_str().to_owned(),
                Outcome::Failure(error) => error.to_string(),
            };
            (format!("{method} {target}"), outcome)
        })
    }

    /// The first request of another conversation that is not the one of this, or is missing.
    pub(super) fn difference(&self, said: &Self) -> Option<TapeError> {
        let count = self.exchanges.len().max(said.exchanges.len());
        (0..count).find_map(|at| {
            let [recorded, sent] = [self, said].map(|it| Some(&it.exchanges.get(at)?.request));
            let line = |request: Option<&TapedRequest>| {
                request.map_or("none".to_owned(), TapedRequest::to_string)
            };
            (recorded != sent).then(|| TapeError::Different {
                at: at + 1,
                recorded: line(recorded),
                sent: line(sent),
            })
        })
    }
}

impl Exchange {
    pub(super) fn of(
        request: &Request<Bytes>,
        outcome: &Result<Response, SendError>,
        hiding: &Replacer,
    ) -> Self {
        let request = TapedRequest::of(request, hiding);
        let outcome = match outcome {
            Ok(response) => Outcome::Answer(Answer {
                status: response.parts.status,
                headers: replaced(&response.parts.headers, hiding),
                body: Content::of(&response.body, hiding),
                after_unknown: response.after_unknown,
            }),
            Err(error) => {
                let mut error = error.clone();
                if let Some(reason) = error.reason_mut() {
                    *reason = hiding.text(reason);
                }
                Outcome::Failure(error)
            }
        };
        Self { request, outcome }
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
            Some(Content::Hex(bytes)) => format!(" {}", hex::encode(bytes)),
        };
        let body = shortened(body, SHOWN_BYTES);
        write!(f, "{} {}{body}", self.method, self.target)
    }
}

impl Outcome {
    /// What the plugin gets.
    pub(super) fn result(&self, restoring: &Replacer) -> Result<Response, SendError> {
        let answer = match self {
            Self::Answer(answer) => answer,
            Self::Failure(error) => return Err(error.clone()),
        };
        let body = answer.body.as_ref();
        let body = body.map_or_else(Vec::new, |body| body.bytes(restoring));
        let mut response = http::Response::new(());
        *response.status_mut() = answer.status;
        *response.headers_mut() = replaced(&answer.headers, restoring);
        // JSON was written anew, and secrets may have another length. An answer to HEAD keeps its own.
        if let Some(length) = response.headers_mut().get_mut(CONTENT_LENGTH)
            && !body.is_empty()
        {
            *length = body.len().into();
        }
        Ok(Response {
            parts: response.into_parts().0,
            body: body.into(),
            trailers: HeaderMap::new(),
            after_unknown: answer.after_unknown,
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
            (_, Err(_)) => Self::Hex(hiding.bytes(body)),
        })
    }

    fn bytes(&self, restoring: &Replacer) -> Vec<u8> {
        match self {
            Self::Json(value) => restoring.json(value.clone()).to_string().into_bytes(),
            Self::Text(text) => restoring.text(text).into_bytes(),
            Self::Hex(bytes) => restoring.bytes(bytes),
        }
    }
}

fn replaced(headers: &HeaderMap, by: &Replacer) -> HeaderMap {
    let mut headers = headers.clone();
    for value in headers.values_mut() {
        let text = by.text(&String::from_utf8_lossy(value.as_bytes()));
        *value = HeaderValue::try_from(text).unwrap_or(UNFIT);
    }
    headers
}
