//! The copies of a pool: their requests, which of them are running, the waiting calls, and the results for which no call waited. A copy may take
//! hours and outlive its caller; a repeated call joins it and does not start it again.
//!
//! An error is returned once to every waiting call, or otherwise to the next call for the same copy. Only the call after that starts the copy again.
//! So a copy that fills the disk each time is not started again before its error was reported. A call that uses one target of a running group for
//! something else is refused.

use crate::confine::PoolPath;
use crate::pool::place::Place;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::mutex::lock;

/// How long a call waits for a copy, its own or one that it joins. 30 s: half of a backend's default time budget, so that its guest receives
/// `aborted` and can return it before the call is interrupted.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// How long the error of a copy is kept for the next call. 10 min: twice external-provisioner's longest pause between two attempts
/// (`--retry-interval-max`).
const ERROR_KEPT: Duration = Duration::from_secs(600);

/// Maximum number of copies in one group. 1,000: each keeps three descriptors open until all are made, of which a process has some thousands, and so
/// many file systems are frozen and copied within the time for which writers may be blocked.
const GROUP: usize = 1000;

/// A source and the target of its copy.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) source: Place,
    pub(super) target: Place,
}

/// The kind of the copy.
#[derive(Debug, Clone)]
pub(super) enum CopyRequest {
    Image(Pair),
    Directory(Pair),
    /// All or none, as of one moment; sorted by target.
    Images(Vec<Pair>),
}

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
    copy: Waiting,
    outcome: Outcome,
}

/// A wait of a call for a copy.
#[derive(Debug, Clone)]
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

impl Pair {
    pub(super) fn parse(pool: &str, source: &str, target: &str) -> Result<Self, MountError> {
        Ok(Self {
            source: Place::parse(pool, source)?,
            target: Place::parse(pool, target)?,
        })
    }
}

impl CopyRequest {
    /// From a plugin's call. The same group in another order is equal.
    pub(super) fn group(pool: &str, copies: &[(String, String)]) -> Result<Self, MountError> {
        if copies.len() > GROUP {
            return Err(MountError::invalid(
                format!("a group of {} copies", copies.len()),
                format!("it may have {GROUP} at most; make several groups"),
                // The request determines the number of members.
                Blame::Of(Owner::Request),
            ));
        }
        let parse = |(source, target): &(String, String)| Pair::parse(pool, source, target);
        let mut pairs: Vec<_> = copies.iter().map(parse).collect::<Result<_, _>>()?;
        pairs.sort_by(|one, other| one.target.path.as_str().cmp(other.target.path.as_str()));
        let mut neighbours = pairs.array_windows::<2>();
        match neighbours.find(|[one, next]| one.target == next.target) {
            Some([twice, _]) => Err(twice
                .target
                .invalid("it is the target of two copies of one group")),
            None => Ok(Self::Images(pairs)),
        }
    }

    pub(super) fn pairs(&self) -> &[Pair] {
        match self {
            Self::Image(pair) | Self::Directory(pair) => std::slice::from_ref(pair),
            Self::Images(pairs) => pairs,
        }
    }

    /// Whether both describe the same copy, whatever names drivers give the pool.
    pub(super) fn is(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Pair, &Pair)| {
            (&one.source.path, &one.target.path) == (&other.source.path, &other.target.path)
        };
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.pairs().len() == other.pairs().len()
            && self.pairs().iter().zip(other.pairs()).all(is_same)
    }
}

impl fmt::Display for CopyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pairs() {
            [pair] => write!(f, "the copy to {}", pair.target),
            [pair, others @ ..] => {
                write!(f, "the copy to {} and {} more", pair.target, others.len())
            }
            [] => f.write_str("an empty list of copies"),
        }
    }
}

/// Starts a copy, or joins the same running one, in which case there is no claim. An unreported error is returned now.
pub(super) fn begin(
    copies: &Arc<Copies>,
    request: &CopyRequest,
) -> Result<(Option<Claim>, Waiting), MountError> {
    let waiting = |copy| Waiting {
        copies: Arc::clone(copies),
        copy,
    };
    let targets: HashSet<_> = request.pairs().iter().map(|it| &it.target.path).collect();
    let mut table = lock(&copies.0);
    // A failure of long ago is not reported any more.
    let is_kept = |(at, _): &(Instant, Outcome)| at.elapsed() < ERROR_KEPT;
    table
        .copies
        .retain(|copy| copy.end.borrow().as_ref().is_none_or(is_kept));
    for copy in table.copies.clone() {
        let mut pairs = copy.request.pairs().iter();
        let Some(Pair { target, .. }) = pairs.find(|it| targets.contains(&it.target.path)) else {
            continue;
        };
        let is_same = copy.request.is(request);
        let end = copy.end.borrow().clone();
        match end {
            None if is_same => return Ok((None, waiting(copy))),
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
    let waiting = waiting(Arc::new(Copy {
        request: request.clone(),
        end: watch::Sender::new(None),
    }));
    table.copies.push(Arc::clone(&waiting.copy));
    let claim = Claim {
        copy: waiting.clone(),
        outcome: Err(MountError::unreachable(
            "the copy was cancelled; call again",
        )),
    };
    Ok((Some(claim), waiting))
}

impl Copies {
    /// Marks a path that is to be removed or renamed. Refused for the source of a running copy, which would be incomplete; for its target, which
    /// would appear after its removal was answered; and for a path that is already being removed, so that a retry does not walk beside the first
    /// walk.
    pub(super) fn leave(&self, place: &Place) -> Result<Leaving<'_>, MountError> {
        let mut table = lock(&self.0);
        if table.leaving.iter().any(|path| place.overlaps(path)) {
            return Err(leaving(place));
        }
        let running = |copy: &&Arc<Copy>| copy.end.borrow().is_none();
        for copy in table.copies.iter().filter(running) {
            for Pair { source, target } in copy.request.pairs() {
                if place.overlaps(source.path.as_str()) {
                    return Err(place.in_use("it is being copied"));
                }
                if place.overlaps(target.path.as_str()) {
                    let what = copy.request.to_string();
                    return Err(MountError::under_way(what));
                }
            }
        }
        let path = place.path.as_str().to_owned();
        table.leaving.push(path.clone());
        Ok(Leaving { copies: self, path })
    }

    /// Refuses to create or change a path that is being removed or renamed, or that lies in one: the change would be lost with it.
    pub(super) fn refuse_leaving(
        &self,
        path: &PoolPath,
        place: &dyn fmt::Display,
    ) -> Result<(), MountError> {
        let table = lock(&self.0);
        match table.leaving.iter().any(|leaving| path.is_in(leaving)) {
            true => Err(leaving(place)),
            false => Ok(()),
        }
    }
}

impl Table {
    fn remove(&mut self, copy: &Arc<Copy>) {
        self.copies.retain(|other| !Arc::ptr_eq(other, copy));
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
        let Waiting { copies, copy } = &self.copy;
        let mut table = lock(&copies.0);
        let outcome = std::mem::replace(&mut self.outcome, Ok(()));
        // A finished copy is found at its target from now on.
        if outcome.is_ok() {
            table.remove(copy);
        }
        copy.end.send_replace(Some((Instant::now(), outcome)));
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
            return Err(MountError::under_way(what));
        };
        lock(&self.copies.0).remove(&self.copy);
        outcome
    }
}

fn leaving(place: &dyn fmt::Display) -> MountError {
    MountError::under_way(format!("the removal or rename of {place}"))
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut table = lock(&self.copies.0);
        table.leaving.retain(|path| *path != self.path);
    }
}

#[cfg(test)]
mod tests;
