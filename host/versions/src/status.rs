//! The status and events of a reconciler.

use crate::record::{Drained, Hold, VersionRecord};
use crate::refusal::RefusalKind;
use std::time::{Duration, SystemTime};
use wasmount_core::status::{Draining, Phase};

/// The state of a backend; the default is that of a reconciler that has just started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReconcilerStatus {
    /// Its phase.
    pub phase: Phase,
    /// The version that serves; none: no version does.
    pub current: Option<VersionRecord>,
    /// Warnings for an administrator.
    pub warnings: Vec<String>,
    /// The last rejection, if no version was activated since.
    pub refused: Option<RefusedVersion>,
    /// Versions that were replaced and still have calls.
    pub draining: Vec<Draining>,
    /// The hold that keeps it from following its document.
    pub held: Option<Hold>,
    /// Only commands change it (`wasmount pause`).
    pub paused: bool,
    /// Why no new work is taken, and since when (`wasmount drain`).
    pub drained: Option<Drained>,
    /// How many revisions were desired, counted from the reconciler's start.
    pub desired: u64,
    /// The last of those with a known outcome.
    pub settled: u64,
}

/// A version that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedVersion {
    /// It is the document's version; otherwise an administrator requested it by command, and the document says something else.
    pub by_document: bool,
    /// Digest of its component; none: it was not fetched.
    pub digest: Option<String>,
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// A message that states what to do.
    pub reason: String,
    /// When.
    pub at: SystemTime,
}

/// The result of a swap or a rollback.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The version before; none: there was none.
    pub before: Option<u64>,
    /// The version that serves now.
    pub now: VersionRecord,
    /// False: it already served.
    pub changed: bool,
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
