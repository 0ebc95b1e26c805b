//! The outcomes and events of a reconciler.

use std::time::Duration;
use wasmount_core::status::{Draining, RefusedVersion, VersionRecord};

/// The result of a swap or a rollback.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The version before; none: there was none.
    pub before: Option<u64>,
    /// The version that serves now, or a share of the volumes.
    pub now: VersionRecord,
    /// False: it already served.
    pub changed: bool,
    /// The percentage of the volumes that it serves; none: it serves everything.
    pub share: Option<u8>,
    /// Warnings for an administrator.
    pub warnings: Vec<String>,
    /// Time to admit it, with fetching and compiling.
    pub proving: Duration,
    /// Time to activate it, from its admission until calls go to it, with writing to disk that it serves.
    pub switching: Duration,
    /// The part of that time that the disk took to make that durable.
    pub writing: Duration,
}

/// An event, for logs and Kubernetes events.
#[derive(Debug, Clone, PartialEq)]
pub enum VersionEvent {
    /// Another version serves.
    Swapped(Outcome),
    /// Another version serves a share of the volumes, or a larger one.
    Shared(Outcome),
    /// A version was rejected; reported once for the same one.
    Refused(RefusedVersion),
    /// A version was rolled back.
    RolledBack {
        /// Its number.
        from: u64,
        /// The version that serves instead.
        to: VersionRecord,
        /// Why.
        reason: String,
        /// The host did it, without a command.
        by_itself: bool,
    },
    /// A version fails, and there is none to roll back to.
    CannotRollBack {
        /// Its number.
        number: u64,
        /// Why it should be rolled back.
        reason: String,
    },
    /// Calls of a version that was replaced do not end.
    StillDraining(Draining),
}
