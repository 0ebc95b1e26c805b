//! What belongs to one call beside its arguments: its name, its secrets, the time that it may take. Apart because every room passes it on
//! and none may print it whole.

use crate::fault::Origin;
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the gRPC face knows of a call.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Stands in log lines, spans and events of this call.
    pub request_id: String,
    /// `secrets` of the request; service account tokens were moved here from the volume context.
    pub secrets: Arc<Secrets>,
    /// For whom the call is made: told beside faults, never to a backend.
    pub origin: Origin,
}

/// What a backend is told of a call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Which call.
    pub rpc: Rpc,
    /// Stands in log lines, spans and events of this call.
    pub request_id: String,
    /// Secrets of the request. Those of the backend's own document are the backend's.
    pub secrets: Arc<Secrets>,
    /// When the backend's own budget (`limits.time`) is spent. Not the client's deadline: when the client gives up, the call goes on, so
    /// that its retry finds the work done.
    pub deadline: Instant,
    /// Set when the host is to end or the budget is spent.
    pub cancelled: CancellationToken,
    /// What was begun for the call and destroys something, whatever becomes of the backend: the claims of the call last as long.
    pub jobs: TaskTracker,
    /// Set by the backend, see [`EffectMark`].
    pub effect: EffectMark,
}

/// Whether a call has made or changed something that is still there: then its failure must not be final. Shared by all clones of a call.
#[derive(Debug, Clone, Default)]
pub struct EffectMark(Arc<AtomicBool>);

impl EffectMark {
    /// From now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
