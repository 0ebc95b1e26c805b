//! Versions of a backend: what must hold before one serves, how one follows another, and how one is rolled back.
//!
//! ```text
//! Desired ──▶ VersionReconciler ── Sources ──▶ admit ──▶ component and history on disk ──▶ Driver::activate
//!                     │                                           ▲
//!                     └── trial: faults of the new version ── rollback
//! ```
//!
//! It decides; the engine inspects and runs. It must not know wasmtime, sockets or Kubernetes.
#![forbid(unsafe_code)]

mod admission;
mod desired;
mod disk;
mod events;
mod history;
mod imports;
mod migration;
mod plugin_file;
mod reconciler;
mod refusal;
mod refused;
mod secrets_mark;
mod services;
mod trial;

pub use admission::{AdmissionReport, Admitted, Proof, Step, TakenStep, run_admission};
pub use desired::{Desired, DesiredFrom, Fetched, RollbackRequest, Sources};
pub use events::{Outcome, VersionEvent};
pub use plugin_file::{Component, PLUGIN_BYTES, check_kind};
pub use reconciler::{
    Migrates, ReconcilerParts, SetGrants, ShareRequest, SwapRequest, VersionReconciler,
};
pub use refusal::{Refusal, RetryPolicy};
pub use services::Kept;
