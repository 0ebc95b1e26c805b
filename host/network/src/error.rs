//! Why the network of a backend cannot be opened, and why a request has no answer.

use serde::{Deserialize, Serialize};
use std::error::Error;
use wasmount_core::text::shortened;

/// Longest text of a cause, in bytes: a server may put anything into a TLS alert or an HTTP/2 error.
const CAUSE_BYTES: usize = 512;
/// How a layer of the HTTP client begins a text that only says which step failed.
const STEP: &str = "client error (";

/// Why a grant cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("grants.network.{grant}: {reason}")]
pub struct NetworkError {
    pub(crate) grant: String,
    /// What is wrong, without the value of a secret.
    pub(crate) reason: String,
}

/// Why a request has no answer. No text contains a path, a query or a secret. On a tape it has its name as `kind`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SendError {
    /// The document does not allow it.
    #[error("a request to `{grant}` is not granted: {reason}")]
    NotGranted {
        /// The authority that the plugin named.
        grant: String,
        /// What is not granted, and what to add to the document.
        reason: String,
    },
    /// The call only reads, and the request may change something.
    #[error(
        "a request to `{grant}` may change something in a call that only reads; mark a search with `wasmount-request: read`"
    )]
    ReadOnly {
        /// The grant.
        grant: String,
    },
    /// The request does not name a host, or none that is granted.
    #[error("no host for `{grant}`: {reason}")]
    NoHost {
        /// The grant.
        grant: String,
        /// What is wrong.
        reason: String,
    },
    /// The host has an address that is not allowed.
    #[error(
        "{host} has the address {address}, which is not allowed; add it to `addresses` of the grant if it is meant"
    )]
    Address {
        /// The host.
        host: String,
        /// The address.
        address: std::net::IpAddr,
    },
    /// The name of the host cannot be resolved.
    #[error("{host} cannot be resolved: {reason}")]
    Resolve {
        /// The host.
        host: String,
        /// The cause.
        reason: String,
    },
    /// No connection could be made. Nothing was sent.
    #[error("no connection to {host}: {reason}; nothing was sent")]
    Connect {
        /// The host.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The host could not be verified, or did not accept the client. Nothing was sent.
    #[error("no TLS connection to {host}: {reason}; nothing was sent")]
    Tls {
        /// The host.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The limits of the grant left no place for the request within its time. Nothing was sent.
    #[error(
        "`{grant}` is busy: `rate` of the grant left no place within the time of the call; nothing was sent"
    )]
    Busy {
        /// The grant.
        grant: String,
    },
    /// The host could not log in. The request was not sent.
    #[error("no session with `{grant}`: {reason}; the request was not sent")]
    Login {
        /// The grant.
        grant: String,
        /// The cause.
        reason: String,
    },
    /// The answer did not arrive in time.
    #[error("no answer from `{grant}` in time; the request {}", sent_text(*.sent))]
    Timeout {
        /// The grant.
        grant: String,
        /// It may have been executed.
        sent: bool,
    },
    /// The connection ended before the answer was complete.
    #[error(
        "the connection to `{grant}` ended: {reason}; the request was sent and may have been executed"
    )]
    Lost {
        /// The grant.
        grant: String,
        /// The cause.
        reason: String,
    },
    /// The body of the request is larger than the grant allows. Nothing was sent.
    #[error("the request to `{grant}` is larger than {limit} bytes (`maxBody`); nothing was sent")]
    RequestTooLarge {
        /// The grant.
        grant: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The answer is larger than the grant allows.
    #[error(
        "the answer of `{grant}` is larger than {limit} bytes (`maxBody`); the request was executed"
    )]
    ResponseTooLarge {
        /// The grant.
        grant: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A replayed conversation has no such request at this place.
    #[error("the request is not the recorded one; nothing was sent")]
    NotRecorded,
}

impl SendError {
    /// Whether the storage system may have executed the request.
    pub fn sent(&self) -> bool {
        match self {
            Self::Timeout { sent, .. } => *sent,
            Self::Lost { .. } | Self::ResponseTooLarge { .. } => true,
            Self::NotGranted { .. }
            | Self::ReadOnly { .. }
            | Self::NoHost { .. }
            | Self::Address { .. }
            | Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Busy { .. }
            | Self::Login { .. }
            | Self::RequestTooLarge { .. }
            | Self::NotRecorded => false,
        }
    }

    /// Why a login got no answer. Whether it was sent does not matter to the request that needs the session: that one was not.
    pub(crate) fn of_login(&self) -> String {
        match self {
            Self::Tls { host, reason } => format!("no TLS connection to {host}: {reason}"),
            Self::Lost { reason, .. } => format!("the connection of the login ended: {reason}"),
            Self::Timeout { .. } => "the login was not answered in time".to_owned(),
            other => other.to_string(),
        }
    }

    /// The part of the text that a server may have written.
    pub(crate) fn reason_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::NotGranted { reason, .. }
            | Self::NoHost { reason, .. }
            | Self::Resolve { reason, .. }
            | Self::Connect { reason, .. }
            | Self::Tls { reason, .. }
            | Self::Login { reason, .. }
            | Self::Lost { reason, .. } => Some(reason),
            Self::ReadOnly { .. }
            | Self::Address { .. }
            | Self::Busy { .. }
            | Self::Timeout { .. }
            | Self::RequestTooLarge { .. }
            | Self::ResponseTooLarge { .. }
            | Self::NotRecorded => None,
        }
    }

    /// Whether another host, or the same one later, may accept a connection.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Resolve { .. } | Self::Connect { .. })
    }
}

fn sent_text(sent: bool) -> &'static str {
    match sent {
        true => "was sent and may have been executed",
        false => "was not sent",
    }
}

/// The causes of an error, without the URL, which may hold a token.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !causes.iter().any(|known: &String| known.contains(&text)) {
            causes.push(text);
        }
        next = error.source();
    }
    if causes.len() > 1 {
        causes.retain(|cause| !cause.starts_with(STEP));
    }
    shortened(causes.join(": "), CAUSE_BYTES)
}
