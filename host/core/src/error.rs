//! Why a call failed, for the driver's callers.

use crate::backend::{BackendError, PluginLabel};
use crate::mounter::MountError;
use crate::names::InvalidWord;
use crate::rpc::Rpc;
use crate::state::StateError;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A word of the request is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidWord),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The privileged room.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The privileged room refuses the plan, for what is in it or for what it was not granted.
    #[error("a plan of {plugin} is refused")]
    Plan {
        /// Whose plan. Boxed, since every result is as large as the largest error.
        plugin: Box<PluginLabel>,
        /// Why.
        source: MountError,
    },
    /// The store.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another call on the same thing is running.
    #[error("another call is working on {subject}: retry")]
    InFlight {
        /// What both want, in words.
        subject: String,
    },
    /// This driver does not serve the call: its backend lacks the interface, the host's role excludes it, or it was hidden.
    #[error("{rpc} is not served: {reason}")]
    NotServed {
        /// Which call.
        rpc: Rpc,
        /// Why.
        reason: &'static str,
    },
    /// The request needs what the driver does not offer.
    #[error("{what} is not offered by this driver")]
    NotOffered {
        /// What was asked for.
        what: String,
    },
    /// No version of the plugin is ready.
    #[error("the plugin of {driver} is not ready: {reason}")]
    NoPlugin {
        /// Which driver.
        driver: String,
        /// Why, as far as known.
        reason: String,
    },
    /// Something that must come first is missing.
    #[error("{0}")]
    Precondition(String),
    /// The snapshot is being made; asked again, the call tells when it is ready.
    #[error("snapshot {id} is not ready yet")]
    SnapshotNotReady {
        /// Which snapshot.
        id: String,
    },
    /// The host is going down.
    #[error("the host is going down: retry")]
    ShuttingDown,
    /// Another host holds the lease of the driver.
    #[error(
        "this host stands by, another one works for the driver (--leader-election): ask that one"
    )]
    StandingBy,
    /// Nothing new is begun.
    #[error("no new work is taken: {reason}")]
    NoNewWork {
        /// Why, in an administrator's words.
        reason: String,
    },
    /// Calls wait while the records of the backend are changed, and this one waited too long, or too many do.
    #[error("calls wait until the backend has another version: retry")]
    Held,
    /// The work outlived the client's patience; it goes on, and a retry finds it done.
    #[error("{rpc} is still under way")]
    StillUnderWay {
        /// Which call.
        rpc: Rpc,
    },
    /// It failed with a final code, after it had changed something.
    #[error(
        "the call had changed something before it failed, so it must be repeated (the failure by itself: {:?})",
        source.code()
    )]
    AfterEffect {
        /// Why it failed. Boxed, since an error cannot hold itself.
        source: Box<Error>,
    },
    /// The task of the call ended without an answer: a bug of the host.
    #[error("{rpc} ended without an answer: this is a bug of the host")]
    Lost {
        /// Which call.
        rpc: Rpc,
    },
}

impl Error {
    /// As it is answered once the call has changed something.
    pub(crate) fn after_effect(self) -> Self {
        if self.code().is_retried() {
            return self;
        }
        Self::AfterEffect {
            source: Box::new(self),
        }
    }
}
