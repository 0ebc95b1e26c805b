//! The conversation of one call with storage systems: recorded with them, replayed without them. The tape is above credentials, sessions and retries, so
//! nothing of those is on it.

mod conversation;
mod placeholders;

pub use conversation::{Conversation, TAPE_FILE_BYTES};

use crate::connector::Response;
use crate::error::SendError;
use bytes::Bytes;
use conversation::{Exchange, TapedRequest};
use http::Request;
use placeholders::Replacer;
use std::collections::BTreeMap;
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
    /// It is not a tape, or one of another version of the host.
    #[error("is not a recorded conversation: {0}")]
    Foreign(String),
    /// There is more than a tape holds, or more secrets than can be searched for.
    #[error(
        "the conversation is larger than {RECORDED_BYTES} bytes, and is not recorded; make a call that reads less"
    )]
    TooLarge,
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

/// Notes the requests of one call; in a replay, it answers them as well.
pub(crate) struct Tape {
    /// Those of the document.
    secrets: Arc<Secrets>,
    pub(crate) replayed: Option<Replayed>,
    said: Mutex<Said>,
}

/// What answers instead of storage systems.
pub(crate) struct Replayed {
    pub(crate) grants: BTreeMap<String, NetworkGrant>,
    pub(crate) conversation: Conversation,
}

/// Values are hidden at the end, when all tokens are known.
#[derive(Default)]
struct Said {
    request_secrets: Arc<Secrets>,
    tokens: Vec<Zeroizing<String>>,
    exchanges: Vec<(Request<Bytes>, Result<Response, SendError>)>,
    body_bytes: usize,
    /// A replayed call sent another request: there are no more answers.
    is_different: bool,
}

impl Tape {
    pub(crate) fn new(secrets: Arc<Secrets>, replayed: Option<Replayed>) -> Self {
        let said = Mutex::default();
        Self {
            secrets,
            replayed,
            said,
        }
    }

    /// Notes a request that is about to be sent, and returns its number. Until it has an outcome, it counts as sent.
    pub(crate) fn begin(&self, secrets: &Arc<Secrets>, request: &Request<Bytes>) -> usize {
        let mut said = lock(&self.said);
        said.request_secrets = Arc::clone(secrets);
        if said.has_room(request.body().len()) {
            let grant = request.uri().host().unwrap_or_default().to_owned();
            let unknown = SendError::Timeout { grant, sent: true };
            said.exchanges.push((request.clone(), Err(unknown)));
        }
        said.exchanges.len().saturating_sub(1)
    }

    pub(crate) fn end(&self, number: usize, outcome: &Result<Response, SendError>) {
        let mut said = lock(&self.said);
        let bytes = outcome.as_ref().map_or(0, |response| response.body.len());
        let has_room = said.has_room(bytes);
        if let Some((_, noted)) = said.exchanges.get_mut(number)
            && has_room
        {
            *noted = outcome.clone();
        }
    }

    /// Counts values as secrets.
    pub(crate) fn learn(&self, tokens: impl IntoIterator<Item = Zeroizing<String>>) {
        let known = &mut lock(&self.said).tokens;
        for token in tokens {
            if !known.contains(&token) {
                known.push(token);
            }
        }
    }

    /// The recorded outcome of a request that was noted, unless it or one before it is another one.
    pub(crate) fn answer(
        &self,
        number: usize,
        request_secrets: &Secrets,
        request: &Request<Bytes>,
    ) -> Result<Response, SendError> {
        let mut said = lock(&self.said);
        let recorded = self.replayed.as_ref().filter(|_| !said.is_different);
        let outcome = recorded.and_then(|replayed| {
            let exchange = replayed.conversation.exchanges.get(number)?;
            let hiding = Replacer::hiding(&self.secrets, request_secrets, &[]).ok()?;
            if exchange.request != TapedRequest::of(request, &hiding) {
                return None;
            }
            let held = replayed.grants.values().flat_map(|it| it.secret_names());
            let held = held.collect();
            let restoring = Replacer::restoring(&self.secrets, &held, request_secrets).ok()?;
            Some(exchange.outcome.result(&restoring))
        });
        said.is_different |= outcome.is_none();
        outcome.unwrap_or(Err(SendError::NotRecorded))
    }

    /// What was said until now, and why a replay is not what was recorded.
    pub(crate) fn conversation(&self) -> Result<(Conversation, Option<TapeError>), TapeError> {
        let said = lock(&self.said);
        if said.body_bytes > RECORDED_BYTES {
            return Err(TapeError::TooLarge);
        }
        let hiding = Replacer::hiding(&self.secrets, &said.request_secrets, &said.tokens)?;
        let exchanges = said.exchanges.iter();
        let exchanges = exchanges.map(|(request, outcome)| Exchange::of(request, outcome, &hiding));
        let conversation = Conversation::of(exchanges.collect());
        let replayed = self.replayed.as_ref();
        let difference = replayed.and_then(|it| it.conversation.difference(&conversation));
        Ok((conversation, difference))
    }
}

impl Said {
    /// Counts a body; whether it is recorded.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.body_bytes = self.body_bytes.saturating_add(bytes);
        self.body_bytes <= RECORDED_BYTES
    }
}
