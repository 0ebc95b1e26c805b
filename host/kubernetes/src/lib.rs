//! The host as a client of Kubernetes: registration with kubelet, CSINode, CSIDriver, events, records, StorageBackend objects, manifests.
//!
//! No CSI call waits for any of it: a failure is logged and tried again. Decisions are pure functions over objects that were read; the watches around
//! them have the side effects.

#![forbid(unsafe_code)]

mod access;
pub mod csi_driver;
pub mod csi_node;
mod election;
mod error;
mod event_rate_limiter;
mod events;
mod guarded_patch;
pub mod manifests;
mod node_facts;
mod node_reports;
mod node_troubles;
mod object_watch;
mod plugin_faults;
mod registration;
mod request;
mod state;
mod status;
pub mod storage_backend;
mod taints;
#[cfg(test)]
mod tests {
    pub(crate) mod api_double;
}
pub mod wire;

pub use access::{ApiAccess, connect};
pub use election::{Election, Leadership, Term, Withdrawal};
pub use error::KubernetesError;
pub use events::{About, Events};
pub use node_facts::{KubernetesNodes, NodeFactsWriter};
pub use node_reports::report_nodes;
pub use node_troubles::{NodeTroubles, TroubleKind, Troubles};
pub use plugin_faults::report_plugin_faults;
pub use registration::{PluginRegistration, Registrar, registration_socket, registry};
pub use state::{KubernetesStore, RECORD_DEFINITION};
pub use status::{Beginning, Gap, GapStart, ListingStatus, RegistrationStatus};

/// The name of our field manager, and the reporting controller of events.
pub const FIELD_MANAGER: &str = "wasmount";
