//! What a reconciler tells of itself.

use crate::record::{Drained, Hold, VersionRecord};
use crate::refusal::RefusalKind;
use std::time::{Duration, SystemTime};
use wasmount_core::status::{Draining, Phase};

/// How it stands with a backend.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconcilerStatus {
    /// In one word.
    pub phase: Phase,
    /// The version that serves; none: no version does.
    pub current: Option<VersionRecord>,
    /// What an administrator should know of it.
    pub warnings: Vec<String>,
    /// What was refused last, if nothing was put to use since.
    pub refused: Option<RefusedVersion>,
    /// Versions that were replaced and still have calls.
    pub draining: Vec<Draining>,
    /// What keeps it from following its document.
    pub held: Option<Hold>,
    /// Nothing is changed but on demand (`wasmount pause`).
    pub paused: bool,
    /// Why no new work is taken, and since when (`wasmount drain`).
    pub drained: Option<Drained>,
    /// How often something else was wanted, counted from the reconciler's start.
    pub wanted: u64,
    /// Up to which of those it is known what became of it.
    pub settled: u64,
}

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedVersion {
    /// It is what the document says; otherwise somebody asked for it by hand, and the document has what it wants.
    pub by_document: bool,
    /// Of its component; none: it was not even had.
    pub digest: Option<String>,
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// In words, with what to do.
    pub reason: String,
    /// When.
    pub at: SystemTime,
}

/// What a swap or a rollback came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The version before; none: there was none.
    pub before: Option<u64>,
    /// The version that serves now.
    pub now: VersionRecord,
    /// False: it did already.
    pub changed: bool,
    /// What an administrator should know.
    pub warnings: Vec<String>,
    /// How long proving it took, with fetching and compiling.
    pub proving: Duration,
    /// How long putting it to use took, from when it was proved until calls went to it, with writing down that it serves.
    pub switching: Duration,
    /// How much of that the disk took to make durable that it serves.
    pub writing: Duration,
}

/// What a drain came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainOutcome {
    /// Calls that still run.
    pub calls: usize,
}

/// What happened, for those who tell people.
#[derive(Debug, Clone, PartialEq)]
pub enum VersionEvent {
    /// Another version serves.
    Swapped(Outcome),
    /// A version was refused; told once for the same one.
    Refused(RefusedVersion),
    /// A version was taken back.
    RolledBack {
        /// Which.
        from: u64,
        /// The one that serves in its place.
        to: VersionRecord,
        /// Why.
        reason: String,
        /// The host did it, and nobody asked.
        by_itself: bool,
    },
    /// A version fails, and there is none to go back to.
    CannotRollBack {
        /// Which.
        number: u64,
        /// Why it should.
        reason: String,
    },
    /// Calls of a version that was replaced do not end.
    StillDraining(Draining),
}

impl ReconcilerStatus {
    /// Of a reconciler that has just begun.
    pub(crate) fn loading() -> Self {
        Self {
            phase: Phase::Loading,
            current: None,
            warnings: Vec::new(),
            refused: None,
            draining: Vec::new(),
            held: None,
            paused: false,
            drained: None,
            wanted: 0,
            settled: 0,
        }
    }
}
