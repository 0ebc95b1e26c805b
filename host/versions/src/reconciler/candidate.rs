//! A version on its way to serve, as data: what is asked for, what an attempt came to, and what must happen before it is activated.

use super::ReconcilerParts;
use crate::desired::{Desired, Origin};
use crate::disk::Disk;
use crate::history::{Failed, Identity, Known};
use crate::migration::Mark;
use crate::record::Hold;
use crate::refusal::Refusal;
use crate::services::Kept;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::driver::Held;
use wasmount_core::migration::Migration;
use wasmount_engine::WasmBackend;

/// What is to be got ready.
pub(super) struct Question {
    pub(super) parts: Arc<ReconcilerParts>,
    pub(super) disk: Arc<Disk>,
    pub(super) desired: Desired,
    pub(super) goal: Goal,
}

/// Which way.
pub(super) enum Goal {
    /// What the document points to now.
    Wanted(Box<Wanted>),
    /// A version that served before, from disk.
    Earlier {
        identity: Identity,
        origin: Origin,
        signed_by: Vec<String>,
    },
}

/// What is there already, and what must not come.
pub(super) struct Wanted {
    /// What serves.
    pub(super) serves: Option<CandidateKey>,
    /// What failed, and may not come by itself.
    pub(super) failed: Option<Failed>,
    /// What was refused for good.
    pub(super) refused: Option<CandidateKey>,
    /// What must not be taken away.
    pub(super) kept: Option<Kept>,
    /// The artifact, if its tag was resolved before; none: it is asked for.
    pub(super) known: Option<Known>,
    /// Whose records there are, by its own name of its version; none: nobody's, or another process sees to them.
    pub(super) records_of: Option<String>,
}

/// A version with its secrets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CandidateKey {
    pub(super) identity: Identity,
    /// Their mark.
    pub(super) secrets: String,
}

/// What it came to.
pub(super) enum AttemptOutcome {
    /// It may serve.
    Ready(Box<Ready>),
    /// And nothing need be waited for any more.
    Prepared(Box<Ready>, Box<Prepared>),
    /// It does.
    Serves {
        origin: Origin,
        signed_by: Vec<String>,
    },
    /// It failed before.
    FailedBefore,
    /// It was refused before, and nothing has changed.
    RefusedBefore,
}

/// A version that may serve.
pub(super) struct Ready {
    pub(super) candidate: CandidateKey,
    pub(super) desired: Desired,
    pub(super) origin: Origin,
    pub(super) signed_by: Vec<String>,
    /// None: it is kept already.
    pub(super) wasm: Option<Arc<Vec<u8>>>,
    pub(super) backend: Arc<WasmBackend>,
    pub(super) imports_pool: bool,
    /// What becomes of records of the version before, and how that is called; none: nothing.
    pub(super) migration: Option<(Migration, String)>,
    pub(super) warnings: Vec<String>,
    pub(super) proving: Duration,
}

/// Why not, and of what.
pub(super) struct NotReady {
    pub(super) refusal: Refusal,
    /// None: it was not had.
    pub(super) candidate: Option<CandidateKey>,
    /// Where its component came from.
    pub(super) origin: Option<Origin>,
}

/// Why a version comes.
pub(super) enum Coming {
    /// It is new. `proven`: the one before served well so far. A hold is for what no document says.
    New { proven: bool, hold: Option<Hold> },
    /// It served when the host ended.
    Again,
    /// The backend goes back to it.
    Back(Hold),
}

/// What has to happen before a version is put to use.
pub(super) struct Needs {
    /// With the records.
    pub(super) step: Option<Step>,
    /// Why no call may run; none: they may.
    pub(super) quiet: Option<QuiesceReason>,
}

/// Why no call may ask any version.
pub(super) enum QuiesceReason {
    /// Records change. They are waited for so long.
    Records(Duration),
    /// A new version has other grants, which may take from a call what it uses.
    Grants,
    /// An earlier version has: the rollback must not hang on a call.
    GrantsOnWayBack,
}

/// It has happened.
pub(super) struct Prepared {
    pub(super) step: Option<Step>,
    /// No call asks any version while this lives, if none may.
    pub(super) held: Option<Held>,
    pub(super) began: Instant,
}

/// What is to be done with the records.
pub(super) enum Step {
    /// The version that comes makes them its own.
    Forward {
        migration: Migration,
        from_version: String,
    },
    /// Those of the version that comes are put back.
    Back(Mark),
}

/// What a restart will find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// What the history says.
    History,
    /// The version that comes, whatever becomes of the history.
    Coming,
}

impl From<Refusal> for NotReady {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            candidate: None,
            origin: None,
        }
    }
}
