//! What the host says to Kubernetes: it introduces its drivers to kubelet, watches what kubelet writes of them, and writes what nobody else
//! does. A room of its own because none of it is needed to serve a volume: whatever fails here is said and tried again, and no CSI call waits
//! for it.
//!
//! It asks the driver (`core`) who it is and what it can do; it knows no component, no mount and no CSI message. Decisions are pure functions
//! over the objects as they were read; the watches around them hold the effects.

#![forbid(unsafe_code)]

mod access;
#[cfg(test)]
mod api_double;
pub mod csi_driver;
pub mod csi_node;
mod election;
mod error;
mod event_rate_limiter;
mod events;
mod guarded_patch;
pub mod manifests;
mod node_troubles;
mod plugin_faults;
mod registration;
mod request;
mod state;
mod status;
pub mod storage_backend;
mod taints;
mod unique;
pub mod wire;

pub use access::{ApiAccess, connect};
pub use election::{Election, Leadership, Term, Withdrawal};
pub use error::KubernetesError;
pub use events::{About, Events};
pub use node_troubles::{NodeTroubles, TroubleKind, Troubles};
pub use plugin_faults::tell_plugin_faults;
pub use registration::{Beginning, PluginRegistration, Registrar, registration_socket, registry};
pub use state::{KubernetesStore, RECORD_DEFINITION};
pub use status::{Gap, GapStart, ListingStatus, RegistrationStatus};

/// Who writes, to the API server: in the managed fields of objects, and as the reporter of events.
pub const FIELD_MANAGER: &str = "wasmount";
