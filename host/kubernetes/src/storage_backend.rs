//! Backends as objects of the API server: `StorageBackend`, the report of each host (`StorageBackendNode`), and the summary that one host writes
//! (`status`). Separate because a host can serve the same backends from files, without any of it.
//!
//! ```text
//! API server ──▶ watch ──▶ desired backends ──▶ (the host) ──▶ reports ──▶ report ──▶ StorageBackendNode, one a host
//!                  │ kept on disk                                                        │
//!                  └────────────────────▶ summarise, by the elected host ◀───────────────┘──▶ StorageBackend.status, finalizer
//! ```
//!
//! It does not know how a backend is served, nor what a plugin is.

mod definition;
mod object;
mod object_cache;
mod overview;
mod rate_limit;
mod report;
mod rollout;
mod secret;
mod status_writer;
mod summarise;
mod summary;
mod watch;

pub use definition::{definitions, object_of};
pub use object::{DesiredBackend, Leaving};
pub use overview::{BackendOverview, HostNote, HostNotes, Overview, overview};
pub use rate_limit::RateLimit;
pub(crate) use report::name as report_name;
pub use report::{BackendReport, Reporter, RolledBackBy, write_reports};
pub use rollout::admin::{HostState, RolloutAdmin, RolloutError, RolloutView};
pub use rollout::command::{ROLLOUT, RolloutCommand, RolloutRefused};
pub use rollout::effective::HostIdentity;
pub use rollout::state::{RolloutPart, RolloutPhase, RolloutStatus};
pub use secret::{SecretName, SecretReader, SecretUnread, secrets_changed};
pub(crate) use summarise::lease;
pub use summarise::{Summarising, summarise};
pub use summary::{Hosts, Version};
pub use wasmount_core::status::Phase;
pub use watch::{DesiredBackends, StorageBackends};

use crate::request::resource_of;
use kube::api::{ApiResource, Object};
use serde_json::Value;
use wasmount_core::document::raw::{API_VERSION, KIND};

/// The kind of a host's report.
const REPORT_KIND: &str = "StorageBackendNode";
/// Keeps an object until no host has a volume of it staged.
pub const FINALIZER: &str = "wasmount.io/volumes";
/// With the value `true`, deletion does not wait for volumes.
pub const FORCE_DELETE: &str = "wasmount.io/force-delete";

/// A backend as it was received, with untyped fields: one invalid object does not make its list unreadable.
type BackendObject = Object<Value, Value>;

/// Backends in requests to the API server.
fn backends() -> ApiResource {
    resource_of(KIND, "storagebackends")
}

/// Reports in requests to the API server.
fn reports() -> ApiResource {
    resource_of(REPORT_KIND, "storagebackendnodes")
}
