//! What belongs to one call beside its arguments: its name, its secrets, the time that it may take.

use crate::attributes::Attributes;
use crate::blame::RequestWords;
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the gRPC face knows of a call.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// Stands in log lines, spans and events of this call.
    pub request_id: String,
    /// `secrets` of the request; service account tokens were moved here from the volume context.
    pub secrets: Arc<Secrets>,
    /// For whom the call is made: told beside faults, never to a backend.
    pub origin: Origin,
    /// What it is about: the id, or the name of what is to be made.
    pub subject: Option<String>,
    /// What its author wrote: told to nobody, compared with what is refused.
    pub words: RequestWords,
}

/// For whom a call is made, in the words that an orchestrator puts beside what it asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name of what is to be made.
    pub name: Option<String>,
    /// Parameters, or the volume's context.
    pub words: Attributes,
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
    /// The whole of that time, for messages: each of several calls into the plugin has only what is left.
    pub time: Duration,
    /// What all calls into the plugin have used of a CPU.
    pub cpu: CpuUsed,
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

/// CPU time that is counted over a whole RPC, whose clones count the same.
#[derive(Debug, Clone, Default)]
pub struct CpuUsed(Arc<AtomicU64>);

impl Call {
    /// Without secrets, and with so much time from now on.
    pub fn within(rpc: Rpc, request_id: impl Into<String>, time: Duration) -> Self {
        Self {
            rpc,
            request_id: request_id.into(),
            secrets: Arc::default(),
            deadline: Instant::now() + time,
            time,
            cpu: CpuUsed::default(),
            cancelled: CancellationToken::new(),
            jobs: TaskTracker::new(),
            effect: EffectMark::default(),
        }
    }

    /// Its whole time in seconds, never 0.
    pub fn seconds(&self) -> u64 {
        (self.time.as_secs_f64().ceil() as u64).max(1)
    }
}

impl CpuUsed {
    /// A call into the plugin has used so much.
    pub fn add(&self, used: Duration) {
        let nanoseconds = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// What all that have ended used together.
    pub fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

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
