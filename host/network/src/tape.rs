//! The conversation of one call with storage systems: recorded with them, replayed without them. The tape is above credentials, sessions and retries, so
//! nothing of those is on it.

mod conversation;
mod placeholders;

pub use conversation::{Conversation, TAPE_FILE_BYTES};

use crate::connector::Response;
use crate::error::SendError;
use bytes::Bytes;
use conversation::{Answer, Exchange, Outcome, TapedRequest};
use http::Request;
use placeholders::Replacer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use wasmount_core::document::network::NetworkGrant;
use wasmount_core::mutex::lock;
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// Most bytes of the bodies of a call that are recorded: lists of arrays have some MiB, and a longer tape is not for people.
const RECORDED_BYTES: usize = 16 << 20;

/// Why a tape cannot be read or written, or is not what the call does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// It is not a tape.
    #[error("is not a recorded conversation: {0}")]
    Foreign(String),
    /// It was written by another version of the host.
    #[error("has the format {0}, and this host reads format 1; record it again")]
    Format(u64),
    /// There is more than a tape holds.
    #[error(
        "the conversation is larger than {RECORDED_BYTES} bytes, and is not recorded; make a call that reads less"
    )]
    TooLarge,
    /// The values of secrets cannot be searched for.
    #[error("the secrets cannot be searched for in the conversation: {0}")]
    Secrets(String),
    /// The plugin sent another request.
    #[error(
        "request {at} is not the recorded one\n  recorded: {recorded}\n  sent:     {sent}\nrecord the call again if this is meant"
    )]
    Different {
        /// Its number, from 1 on.
        at: usize,
        /// The line of the recorded request.
        recorded: String,
        /// The line of the plugin's request.
        sent: String,
    },
}

/// What takes the place of the network, or listens to it.
pub(crate) enum Tape {
    Recorder(Recorder),
    Player(Box<Player>),
}

/// Notes the requests of one call.
pub(crate) struct Recorder {
    secrets: Arc<Secrets>,
    noted: Mutex<Noted>,
}

/// Values are hidden at the end, when all tokens are known.
#[derive(Default)]
struct Noted {
    request_secrets: Arc<Secrets>,
    tokens: Vec<Zeroizing<String>>,
    requests: Vec<NotedRequest>,
    bytes: usize,
}

struct NotedRequest {
    request: Request<Bytes>,
    /// None: the call ended first.
    outcome: Option<Result<Response, SendError>>,
}

/// Answers the requests of one call.
pub(crate) struct Player {
    pub(crate) grants: BTreeMap<String, NetworkGrant>,
    /// Names of the secrets that the plugin does not see.
    held: BTreeSet<String>,
    conversation: Conversation,
    secrets: Arc<Secrets>,
    played: Mutex<Played>,
}

#[derive(Default)]
struct Played {
    /// Requests that were answered.
    count: usize,
    failed: Option<TapeError>,
}

impl Recorder {
    pub(crate) fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            noted: Mutex::default(),
        }
    }

    /// Notes a request that is about to be sent, and returns its number.
    pub(crate) fn begin(&self, request_secrets: &Arc<Secrets>, request: &Request<Bytes>) -> usize {
        let mut noted = lock(&self.noted);
        noted.request_secrets = Arc::clone(request_secrets);
        noted.bytes = noted.bytes.saturating_add(request.body().len());
        if noted.bytes <= RECORDED_BYTES {
            noted.requests.push(NotedRequest {
                request: request.clone(),
                outcome: None,
            });
        }
        noted.requests.len().saturating_sub(1)
    }

    pub(crate) fn end(&self, number: usize, outcome: &Result<Response, SendError>) {
        let mut noted = lock(&self.noted);
        let bytes = outcome.as_ref().map_or(0, |response| response.body.len());
        noted.bytes = noted.bytes.saturating_add(bytes);
        let is_room = noted.bytes <= RECORDED_BYTES;
        if let Some(place) = noted.requests.get_mut(number)
            && is_room
        {
            place.outcome = Some(outcome.clone());
        }
    }

    /// Counts values as secrets.
    pub(crate) fn learn(&self, tokens: impl IntoIterator<Item = Zeroizing<String>>) {
        let known = &mut lock(&self.noted).tokens;
        for token in tokens {
            if !known.contains(&token) {
                known.push(token);
            }
        }
    }

    fn conversation(&self) -> Result<Conversation, TapeError> {
        let noted = lock(&self.noted);
        if noted.bytes > RECORDED_BYTES {
            return Err(TapeError::TooLarge);
        }
        let hiding = Replacer::hiding(&self.secrets, &noted.request_secrets, &noted.tokens)?;
        let exchanges = noted.requests.iter().map(|noted| Exchange {
            request: TapedRequest::of(&noted.request, &hiding),
            outcome: match &noted.outcome {
                Some(Ok(response)) => Outcome::Answer(Answer::of(response, &hiding)),
                Some(Err(error)) => Outcome::failure(error.clone(), &hiding),
                None => {
                    let grant = noted.request.uri().host().unwrap_or_default().to_owned();
                    Outcome::failure(SendError::Timeout { grant, sent: true }, &hiding)
                }
            },
        });
        Ok(Conversation::of(exchanges.collect()))
    }
}

impl Player {
    pub(crate) fn new(
        grants: BTreeMap<String, NetworkGrant>,
        conversation: Conversation,
        secrets: Arc<Secrets>,
    ) -> Self {
        let held = grants.values().flat_map(|grant| grant.secret_names());
        Self {
            held: held.map(str::to_owned).collect(),
            grants,
            conversation,
            secrets,
            played: Mutex::default(),
        }
    }

    /// The recorded outcome of a request, if it is the next one. After another request there are no answers.
    pub(crate) fn answer(
        &self,
        request_secrets: &Secrets,
        request: &Request<Bytes>,
    ) -> Result<Response, SendError> {
        let mut played = lock(&self.played);
        let number = played.count;
        let outcome = match &played.failed {
            Some(_) => return Err(SendError::NotRecorded),
            None => self.next(number, request_secrets, request),
        };
        match outcome {
            Ok(outcome) => {
                played.count += 1;
                outcome
            }
            Err(error) => {
                played.failed = Some(error);
                Err(SendError::NotRecorded)
            }
        }
    }

    fn next(
        &self,
        number: usize,
        request_secrets: &Secrets,
        request: &Request<Bytes>,
    ) -> Result<Result<Response, SendError>, TapeError> {
        let hiding = Replacer::hiding(&self.secrets, request_secrets, &[])?;
        let sent = TapedRequest::of(request, &hiding);
        let recorded = self.conversation.exchanges().get(number);
        let Some(exchange) = recorded.filter(|recorded| recorded.request == sent) else {
            return Err(TapeError::Different {
                at: number + 1,
                recorded: recorded.map_or("none".to_owned(), |it| it.request.to_string()),
                sent: sent.to_string(),
            });
        };
        let answer = match &exchange.outcome {
            Outcome::Answer(answer) => answer,
            Outcome::Failure { error, .. } => return Ok(Err(error.clone())),
        };
        let restoring = Replacer::restoring(&self.secrets, &self.held, request_secrets)?;
        let reason = "a secret in a header has a value that no header can have";
        let response = answer.response(&restoring);
        Ok(Ok(response.ok_or(TapeError::Secrets(reason.to_owned()))?))
    }

    /// The requests that were answered; an error if the call sent another one, or ended without a recorded one.
    fn conversation(&self) -> (Conversation, Option<TapeError>) {
        let played = lock(&self.played);
        let exchanges = self.conversation.exchanges();
        let missing = exchanges
            .get(played.count)
            .map(|exchange| TapeError::Different {
                at: played.count + 1,
                recorded: exchange.request.to_string(),
                sent: "none".to_owned(),
            });
        let answered = exchanges.iter().take(played.count).cloned();
        let conversation = Conversation::of(answered.collect());
        (conversation, played.failed.clone().or(missing))
    }
}

impl Tape {
    /// What was said until now, and why a replay is not what was recorded.
    pub(crate) fn conversation(&self) -> Result<(Conversation, Option<TapeError>), TapeError> {
        match self {
            Self::Recorder(recorder) => Ok((recorder.conversation()?, None)),
            Self::Player(player) => Ok(player.conversation()),
        }
    }
}
