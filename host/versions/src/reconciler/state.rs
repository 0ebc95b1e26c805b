//! The state of the reconciler as plain data, and the decisions that depend on it alone.

use super::{ReconcilerParts, ShareRequest, SwapRequest};
use crate::admission::Admitted;
use crate::desired::{Desired, RollbackRequest};
use crate::disk::Disk;
use crate::events::Outcome;
use crate::history::{CandidateKey, History, Known};
use crate::migration::Mark;
use crate::refusal::{Refusal, RetryPolicy};
use crate::trial::{Promotion, Trial};
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wasmount_core::document::Grants;
use wasmount_core::driver::{QuiesceGuard, VersionFault};
use wasmount_core::migration::Migration;
use wasmount_core::status::{HeldBy, Hold, RefusedVersion};
use wasmount_engine::WasmBackend;
use wasmount_network::Endpoints;

/// Pause after the first rejection; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: how long an administrator who fixes something will wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a failure may be an accident. 3: a compiler that was killed twice by chance is not killed a third time.
const ACCIDENTS: u32 = 3;

/// The channel of an answer. Sending fails if the client has gone, which is not an error.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A request that is answered.
pub(super) enum Command {
    Swap(Box<SwapRequest>, Reply<Outcome>),
    Rollback(RollbackRequest, Reply<Outcome>),
    Pause(bool, Reply<()>),
    /// None: work is accepted again.
    Drain(Option<String>, Reply<()>),
    TakeOver(Box<dyn Fn() -> bool + Send + Sync>, Reply<()>),
    Stop,
}

/// A desired revision, counted from the start of the reconciler.
#[derive(Debug)]
pub(super) struct DesiredRevision {
    pub(super) desired: Desired,
    pub(super) number: u64,
}

/// The goal of an attempt.
#[derive(Clone)]
pub(super) enum Goal {
    /// Follow the document.
    Converge,
    /// Serve the version again that served when the host ended.
    Restore,
    /// A swap by command; pinned: to another version than the document's.
    Swap {
        allow_service_change: bool,
        pinned: bool,
    },
    /// A share of the volumes by command; pinned as above.
    Share { share: ShareRequest, pinned: bool },
    /// The version that had a share when the host ended.
    RestoreShare,
    /// A rollback, by command or after faults.
    RollBack(Hold),
}

/// One attempt to prepare a version, with the state at its start.
pub(super) struct Attempt {
    pub(super) parts: Arc<ReconcilerParts>,
    pub(super) disk: Arc<Disk>,
    pub(super) history: History,
    pub(super) goal: Goal,
    pub(super) desired: Desired,
    /// The current `versions.drain`.
    pub(super) drain: Duration,
    pub(super) serving: Option<Serving>,
    /// The candidate that was rejected for good.
    pub(super) refused: Option<CandidateKey>,
}

/// The result of an attempt.
pub(super) enum Admission {
    /// It may serve, and nothing more has to be waited for.
    Ready(Box<Ready>),
    /// It already serves.
    Serves(Known),
    /// It failed or was rejected before, and nothing has changed.
    RefusedBefore,
}

/// A version that may serve.
pub(super) struct Ready {
    pub(super) candidate: CandidateKey,
    pub(super) desired: Desired,
    pub(super) known: Known,
    pub(super) admitted: Admitted,
    /// It is the version that served when the host ended, and keeps its number.
    pub(super) is_again: bool,
    pub(super) step: Option<RecordsStep>,
    /// While this exists no call reaches any version, if calls are quiesced.
    pub(super) quiesced: Option<QuiesceGuard>,
    pub(super) proving: Duration,
    /// When it was admitted.
    pub(super) proved_at: Instant,
}

/// What happens to the records before a version serves.
pub(super) enum RecordsStep {
    /// The new version migrates them.
    Forward(Forward),
    /// Records of an earlier version are restored.
    Back(Mark),
}

/// A migration by a version, of the records of another one.
pub(super) struct Forward {
    pub(super) migration: Migration,
    pub(super) from_version: String,
}

/// Why a version is not ready, and which one.
pub(super) struct NotReady {
    pub(super) refusal: Refusal,
    /// None: it could not be read.
    pub(super) candidate: Option<CandidateKey>,
    /// Where its component was fetched from.
    pub(super) origin: Option<String>,
}

/// The running version, as attempts see it.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) candidate: CandidateKey,
    pub(super) backend: Arc<WasmBackend>,
    pub(super) grants: Grants,
}

/// The running version.
pub(super) struct Running {
    pub(super) number: u64,
    pub(super) serving: Serving,
    pub(super) faults: mpsc::Receiver<VersionFault>,
    /// When its plugin last failed a call, rounded up.
    pub(super) last_fault: Option<Timestamp>,
    /// None: it is not rolled back.
    pub(super) trial: Option<Trial>,
    pub(super) warnings: Vec<String>,
    /// Checks whether its pools can be used.
    pub(super) pool_check: Option<BoxFuture<'static, Vec<String>>>,
    /// Warnings of that check.
    pub(super) doubts: Vec<String>,
}

/// A version that serves a share of the volumes, beside the running one.
pub(super) struct SharedVersion {
    pub(super) running: Running,
    /// The storage systems that it reaches.
    pub(super) network: Endpoints,
    /// None: by command only.
    pub(super) promotion: Option<Promotion>,
}

/// The last rejection.
pub(super) struct Refused {
    pub(super) version: RefusedVersion,
    /// The candidate, if it is not tried again.
    pub(super) for_good: Option<CandidateKey>,
}

/// A version that served when the host ended and does not serve again yet.
#[derive(Default)]
pub(super) struct Restore {
    /// It was tried: the document is tried next, if it is followed.
    pub(super) is_tried: bool,
    /// It would be rejected again whenever it is tried.
    pub(super) is_judged: bool,
    pub(super) retry: Retry,
    /// How long it waits for its next attempt; none: until something changes.
    pub(super) pause: Option<Duration>,
    pub(super) refused: Option<Refused>,
}

/// How often something was rejected.
#[derive(Debug, Clone, Default)]
pub(super) struct Retry {
    refusals: u32,
}

impl Goal {
    /// Whether the version may be one that never served.
    pub(super) fn is_new(&self) -> bool {
        matches!(
            self,
            Self::Converge | Self::Swap { .. } | Self::Share { .. }
        )
    }

    /// What causes the attempt, for the log.
    pub(super) fn trigger(&self) -> &'static str {
        match self {
            Self::Converge => "document",
            Self::Restore | Self::RestoreShare => "restart",
            Self::Swap { .. } | Self::Share { .. } => "swap command",
            Self::RollBack(hold) => match hold.by {
                HeldBy::Faults { .. } => "faults",
                HeldBy::Rollback | HeldBy::Swap => "rollback command",
            },
        }
    }

    /// Whether a command is done before it.
    pub(super) fn gives_way(&self) -> bool {
        matches!(self, Self::Converge | Self::Restore)
    }
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

impl Retry {
    /// Counts a rejection. Returns how long to wait.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.refusals));
        self.refusals = self.refusals.saturating_add(1);
        pause.min(LONGEST_PAUSE)
    }

    /// The same where trying again may be of no use; none: until something changes.
    pub(super) fn refused(&mut self, policy: RetryPolicy) -> Option<Duration> {
        let pause = self.pause();
        let goes_on = match policy {
            RetryPolicy::Unlimited => true,
            RetryPolicy::FewTimes => self.refusals < ACCIDENTS,
            RetryPolicy::Never => false,
        };
        goes_on.then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(policy: RetryPolicy, refusals: usize) -> Vec<Option<u64>> {
        let mut retry = Retry::default();
        let pause = |_| retry.refused(policy).map(|pause| pause.as_secs());
        (0..refusals).map(pause).collect()
    }

    #[test]
    fn pauses_double_up_to_what_a_person_waits_for() {
        assert_eq!(
            pauses(RetryPolicy::Unlimited, 8),
            [1, 2, 4, 8, 16, 30, 30, 30].map(Some)
        );
    }

    #[test]
    fn accidents_are_tried_thrice_and_judgements_not_again() {
        assert_eq!(pauses(RetryPolicy::FewTimes, 3), [Some(1), Some(2), None]);
        assert_eq!(pauses(RetryPolicy::Never, 1), [None]);
    }

    #[test]
    fn no_number_of_refusals_is_too_many() {
        let mut retry = Retry { refusals: u32::MAX };
        let pause = retry.refused(RetryPolicy::Unlimited);
        assert_eq!(pause, Some(LONGEST_PAUSE));
    }
}
