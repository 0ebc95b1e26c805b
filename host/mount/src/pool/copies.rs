//! The copies of a pool: which are running, who waits for them, and the results for which no call waited. A copy may take hours and outlive its
//! caller; a repeated call joins it and does not start it again.
//!
//! An error is returned once to every waiting call, or otherwise to the next call for the same copy. Only the call after that starts the copy again.
//! So a copy that fills the disk each time is not started again before its error was reported. A call that uses one target of a running group for
//! something else is refused.

use crate::confine::PoolPath;
use crate::pool::copy_request::{CopyRequest, Pair};
use crate::pool::place::Place;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use wasmount_core::mounter::MountError;

/// How long a call waits for a copy, its own or one that it joins. 30 s: half of a backend's default time budget, so that its guest receives
/// `aborted` and can return it before the call is interrupted.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// How long the error of a copy is kept for the next call. 10 min: twice external-provisioner's longest pause between two attempts
/// (`--retry-interval-max`).
const ERROR_KEPT: Duration = Duration::from_secs(600);

/// The result of a copy.
type Outcome = Result<(), MountError>;

/// The copies of a pool.
#[derive(Debug, Default)]
pub(super) struct Copies(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Running copies, and failed ones whose error was not reported yet.
    copies: Vec<Arc<Copy>>,
    /// Paths that are being removed or renamed now.
    leaving: Vec<String>,
}

#[derive(Debug)]
struct Copy {
    request: CopyRequest,
    /// The time of its end and its result.
    end: watch::Sender<Option<(Instant, Outcome)>>,
}

/// The exclusive right to make a copy, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    copies: Arc<Copies>,
    copy: Arc<Copy>,
    outcome: Outcome,
}

/// A wait of a call for a copy.
#[derive(Debug)]
pub(super) struct Waiting {
    copies: Arc<Copies>,
    copy: Arc<Copy>,
}

/// A path that is being removed or renamed: nothing is copied from or to it while this lives.
#[derive(Debug)]
pub(super) struct Leaving<'a> {
    copies: &'a Copies,
    path: String,
}

/// Starts a copy, or joins the same running one, in which case there is no claim. An unreported error is returned now.
pub(super) fn begin(
    copies: &Arc<Copies>,
    request: &CopyRequest,
) -> Result<(Option<Claim>, Waiting), MountError> {
    let waiting = |copy: &Arc<Copy>| Waiting {
        copies: Arc::clone(copies),
        copy: Arc::clone(copy),
    };
    let targets: HashSet<_> = request.pairs().iter().map(|it| &it.target.path).collect();
    let mut table = copies.table();
    table.copies.retain(|copy| !copy.is_forgotten());
    for copy in table.copies.clone() {
        let mut pairs = copy.request.pairs().iter();
        let Some(Pair { target, .. }) = pairs.find(|it| targets.contains(&it.target.path)) else {
            continue;
        };
        let is_same = copy.request.is(request);
        let end = copy.end.borrow().clone();
        match end {
            None if is_same => return Ok((None, waiting(&copy))),
            None => {
                return Err(target.otherwise_there("a copy of something else to it is under way"));
            }
            Some((_, outcome)) => {
                table.remove(&copy);
                if is_same {
                    outcome?;
                }
            }
        }
    }
    for Pair { source, target } in request.pairs() {
        for place in [source, target] {
            if table.leaving.iter().any(|path| place.overlaps(path)) {
                return Err(place.in_use("it is being removed or renamed at this moment"));
            }
        }
    }
    let copy = Arc::new(Copy {
        request: request.clone(),
        end: watch::Sender::new(None),
    });
    table.copies.push(Arc::clone(&copy));
    let waiting = waiting(&copy);
    let claim = Claim {
        copies: Arc::clone(copies),
        copy,
        outcome: Err(MountError::Unreachable {
            reason: "the copy was given up; call again".to_owned(),
        }),
    };
    Ok((Some(claim), waiting))
}

impl Copies {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a path that is to be removed or renamed. Refused for the source of a running copy, which would be incomplete; for its target, which
    /// would appear after its removal was answered; and for a path that is already being removed, so that a retry does not walk beside the first
    /// walk.
    pub(super) fn leave(&self, place: &Place) -> Result<Leaving<'_>, MountError> {
        let mut table = self.table();
        if table.leaving.iter().any(|path| place.overlaps(path)) {
            return Err(under_way(place));
        }
        for copy in table.copies.iter().filter(|copy| copy.is_under_way()) {
            for Pair { source, target } in copy.request.pairs() {
                if place.overlaps(source.path.as_str()) {
                    return Err(place.in_use("it is being copied"));
                }
                if place.overlaps(target.path.as_str()) {
                    let what = copy.request.to_string();
                    return Err(MountError::UnderWay { what });
                }
            }
        }
        let path = place.path.as_str().to_owned();
        table.leaving.push(path.clone());
        Ok(Leaving { copies: self, path })
    }

    /// Refuses to create or change a path that is being removed or renamed, or that lies in one: the change would be lost with it.
    pub(super) fn refuse_leaving(&self, place: &Place) -> Result<(), MountError> {
        match self.is_leaving(&place.path) {
            true => Err(under_way(place)),
            false => Ok(()),
        }
    }

    /// Whether a path is being removed or renamed, or lies in such a path.
    pub(super) fn is_leaving(&self, path: &PoolPath) -> bool {
        let table = self.table();
        table.leaving.iter().any(|leaving| path.is_in(leaving))
    }
}

impl Table {
    fn remove(&mut self, copy: &Arc<Copy>) {
        self.copies.retain(|other| !Arc::ptr_eq(other, copy));
    }
}

impl Copy {
    fn is_under_way(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// Its failure was too long ago to be reported.
    fn is_forgotten(&self) -> bool {
        let end = self.end.borrow();
        end.as_ref()
            .is_some_and(|(at, _)| at.elapsed() >= ERROR_KEPT)
    }
}

impl Claim {
    /// Records the end of the copy.
    pub(super) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = self.copies.table();
        let outcome = std::mem::replace(&mut self.outcome, Ok(()));
        // A finished copy is found at its target from now on.
        if outcome.is_ok() {
            table.remove(&self.copy);
        }
        self.copy.end.send_replace(Some((Instant::now(), outcome)));
    }
}

impl Waiting {
    /// Waits for the end with a limit: a later call finds the copy further advanced.
    pub(super) async fn outcome(self, wait: Duration) -> Outcome {
        let mut end = self.copy.end.subscribe();
        let _ = tokio::time::timeout(wait, end.wait_for(Option::is_some)).await;
        self.now()
    }

    /// The result, if the copy has ended.
    pub(super) fn now(self) -> Outcome {
        let end = self.copy.end.borrow().clone();
        let Some((_, outcome)) = end else {
            let what = self.copy.request.to_string();
            return Err(MountError::UnderWay { what });
        };
        self.copies.table().remove(&self.copy);
        outcome
    }
}

fn under_way(place: &Place) -> MountError {
    MountError::UnderWay {
        what: format!("the removal or rename of {place}"),
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut table = self.copies.table();
        if let Some(at) = table.leaving.iter().position(|path| *path == self.path) {
            table.leaving.swap_remove(at);
        }
    }
}
