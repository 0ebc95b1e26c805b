//! Versions of a backend: what must hold before one serves, how one follows another, and how one is taken back.
//!
//! ```text
//! Desired ──▶ Keeper ── Sources ──▶ prove ──▶ component and history on disk ──▶ Driver::put_to_use
//!                │                                       ▲
//!                └── trial: faults of the new version ── rollback
//! ```
//!
//! It decides; the engine looks and runs. It must not know wasmtime, sockets or Kubernetes.
#![forbid(unsafe_code)]

mod admission;
mod desired;
mod disk;
mod history;
mod imports;
mod keeper;
mod migration;
mod plugin_file;
mod pools;
mod prove;
mod record;
mod refusal;
mod refused;
mod secrets_mark;
mod services;
mod status;
mod trail;
mod trial;

pub use admission::admit;
pub use desired::{Desired, DesiredFrom, Fetched, Origin, Sources};
pub use keeper::{Keeper, KeeperParts, Migrates, RollbackRequest, SetGrants, SwapRequest};
pub use plugin_file::{Component, PLUGIN_BYTES, check_kind, read as read_plugin};
pub use prove::{Admitted, Proof, prove};
pub use record::{Drained, HeldBy, Hold, VersionRecord, VersionState};
pub use refusal::{Patience, Refusal, RefusalKind};
pub use refused::PastRefusal;
pub use services::Kept;
pub use status::{
    DrainOutcome, KeeperEvent, KeeperStatus, OldVersion, Outcome, Phase, RefusedVersion,
};
pub use trail::{Step, StepOutcome, TakenStep, Trail};
