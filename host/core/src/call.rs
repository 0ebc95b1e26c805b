//! The data of one call beside its arguments: its name, its secrets, its time budget.

use crate::attributes::Attributes;
use crate::blame::RequestStrings;
use crate::mutex::lock;
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the gRPC service knows of a call.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// Appears in log lines, spans and events of this call.
    pub request_id: String,
    /// `secrets` of the request; service account tokens were moved here from the volume context.
    pub secrets: Arc<Secrets>,
    /// The objects for which the orchestrator makes the call: reported with faults, never passed to a backend.
    pub origin: Origin,
    /// The subject of the call: an id, or the name of the object to create.
    pub subject: Option<String>,
    /// The strings of the request's author: never reported, only compared with rejected arguments.
    pub strings: RequestStrings,
}

/// The objects for which a call is made, by the strings that the orchestrator adds to the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name of the object to create.
    pub name: Option<String>,
    /// Parameters, or the volume's context.
    pub attributes: Attributes,
}

/// The data of a call that a backend receives.
#[derive(Debug, Clone)]
pub struct Call {
    /// The RPC.
    pub rpc: Rpc,
    /// Appears in log lines, spans and events of this call.
    pub request_id: String,
    /// Secrets of the request. The backend holds the secrets of its own document.
    pub secrets: Arc<Secrets>,
    /// End of the backend's own budget (`limits.time`). It is not the client's deadline: when the client gives up, the call continues, so that its
    /// retry finds the work done.
    pub deadline: Instant,
    /// The full budget, for messages: each of several calls into the plugin has only the remaining part.
    pub time: Duration,
    /// What all calls into the plugin have used so far.
    pub used: CallUsage,
    /// Set when the host shuts down or the budget is spent.
    pub cancelled: CancellationToken,
    /// Destructive jobs that the call started. They continue whatever happens to the backend, and the claims of the call last as long.
    pub jobs: TaskTracker,
    /// Set by the backend, see [`EffectMark`].
    pub effect: EffectMark,
}

/// Whether a call has made or changed something that still exists: then its failure must not be final. Shared by all clones of a call.
#[derive(Debug, Clone, Default)]
pub struct EffectMark(Arc<AtomicBool>);

/// What the calls into a plugin use over a whole RPC. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CallUsage(Arc<Mutex<Used>>);

/// What calls into a plugin have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time of all.
    pub cpu: Duration,
    /// Time of all, with what they waited for.
    pub wall: Duration,
    /// The most memory of one.
    pub memory_bytes: u64,
}

impl Call {
    /// A call without secrets, with this budget from now on.
    pub fn within(rpc: Rpc, request_id: impl Into<String>, time: Duration) -> Self {
        Self {
            rpc,
            request_id: request_id.into(),
            secrets: Arc::default(),
            deadline: Instant::now() + time,
            time,
            used: CallUsage::default(),
            cancelled: CancellationToken::new(),
            jobs: TaskTracker::new(),
            effect: EffectMark::default(),
        }
    }

    /// The full budget in seconds, never 0.
    pub fn seconds(&self) -> u64 {
        (self.time.as_secs_f64().ceil() as u64).max(1)
    }
}

impl CallUsage {
    /// Adds a call into the plugin that has ended.
    pub fn add(&self, used: Used) {
        lock(&self.0).include(used);
    }

    /// The sum of all that have ended.
    pub fn so_far(&self) -> Used {
        *lock(&self.0)
    }
}

impl Used {
    /// Adds what others have used.
    pub fn include(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.wall += other.wall;
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
    }
}

impl EffectMark {
    /// Sets the mark, for good.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
