//! The errors of the driver's calls.

use crate::backend::{BackendError, PluginLabel};
use crate::mounter::MountError;
use crate::rpc::Rpc;
use crate::state::StateError;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The mounter failed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The mounter rejected the plan, for its content or for a missing grant.
    #[error("a plan of {plugin} is refused")]
    Plan {
        /// The plugin of the plan. Boxed, since every result is as large as the largest error.
        plugin: Box<PluginLabel>,
        /// The reason.
        source: MountError,
    },
    /// The state store failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another call holds a conflicting claim.
    #[error("another call is working on {subject}: retry")]
    InFlight {
        /// The object of both calls, as text.
        subject: String,
    },
    /// This driver does not serve the call: its backend lacks the interface, the host's role excludes it, or it was hidden.
    #[error("{rpc} is not served: {reason}")]
    NotServed {
        /// The RPC.
        rpc: Rpc,
        /// The reason.
        reason: &'static str,
    },
    /// The request needs a feature that the driver does not offer.
    #[error("{what} is not offered by this driver")]
    NotOffered {
        /// The feature.
        what: &'static str,
    },
    /// No version of the plugin is ready.
    #[error("the plugin of {driver} is not ready: {reason}")]
    NoPlugin {
        /// The driver.
        driver: String,
        /// The reason, as far as known.
        reason: String,
    },
    /// A precondition is not met.
    #[error("{0}")]
    Precondition(String),
    /// The snapshot is being created; a retry returns when it is ready.
    #[error("snapshot {id} is not ready yet")]
    SnapshotNotReady {
        /// The snapshot.
        id: String,
    },
    /// The host is shutting down.
    #[error("the host is shutting down: retry")]
    ShuttingDown,
    /// Another host holds the lease of the driver.
    #[error("this host is a standby (--leader-election): send the call to the leader")]
    Standby,
    /// New work is rejected.
    #[error("no new work is taken: {reason}")]
    NoNewWork {
        /// The reason, as the administrator gave it.
        reason: String,
    },
    /// Calls wait while the records of the backend are changed, and this one waited too long, or too many do.
    #[error("the backend is being switched to another version, and calls wait: retry")]
    Quiesced,
    /// The work outlived the client's deadline; it continues, and a retry finds it done.
    #[error("{rpc} is still under way")]
    StillUnderWay {
        /// The RPC.
        rpc: Rpc,
    },
    /// The call failed with a final code, after it had changed something.
    #[error(
        "the call had changed something before it failed, so it must be repeated (the code of the failure alone: {:?})",
        source.code()
    )]
    AfterEffect {
        /// The original error. Boxed, since the type would otherwise contain itself.
        source: Box<Error>,
    },
    /// The task of the call ended without an answer: a bug of the host.
    #[error("{rpc} ended without an answer: this is a bug of the host")]
    Lost {
        /// The RPC.
        rpc: Rpc,
    },
}

impl Error {
    /// The error that is returned once the call has changed something. After a final code no client would return to that change: with
    /// external-provisioner INTERNAL ends the work on a claim, and RESOURCE_EXHAUSTED moves it to another node. ABORTED is gRPC's code for a sequence
    /// that must be restarted; UNAVAILABLE would describe the driver, DEADLINE_EXCEEDED the time.
    pub(crate) fn after_effect(self) -> Self {
        if self.code().is_retried() {
            return self;
        }
        Self::AfterEffect {
            source: Box::new(self),
        }
    }
}
