//! Copies under way in a pool: which there are, who waits for them, and what became of those that nobody waited for. It may take hours, its caller
//! may be gone, and a repeated call joins it instead of beginning it anew.
//!
//! An error is told once to everybody who waits, or else to the next who asks for the same copy; only the one after that begins anew. So a copy that
//! fills the disk each time is not begun again before somebody was told.
//!
//! A copy of several images is one: whoever names one of its targets for something else is refused. It holds names only: what a copy does is
//! `copy`'s.

use crate::confine::PoolPath;
use crate::pool::place::Place;
use crate::pool::wanted::{Pair, Wanted};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use wasmount_core::mounter::MountError;

/// How long a call waits for a copy, its own or one that it joins. 30 s: half of a backend's default time, so that its guest is told
/// `aborted` and can say so, before it is stopped.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// How long the error of a copy is kept for who asks next. 10 min: twice external-provisioner's longest pause between two tries
/// (`--retry-interval-max`).
const ERROR_KEPT: Duration = Duration::from_secs(600);

/// What a copy ended with.
type Outcome = Result<(), MountError>;

/// The copies of a pool.
#[derive(Debug, Default)]
pub(super) struct Copies(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    copies: HashMap<u64, Copy>,
    /// Which copy makes what, by path.
    targets: HashMap<String, u64>,
    /// What is being removed or renamed at this moment.
    leaving: Vec<String>,
    last_id: u64,
}

#[derive(Debug)]
struct Copy {
    wanted: Wanted,
    outcome: watch::Sender<Option<Outcome>>,
    /// When it failed. It is not under way any more, but somebody must be told.
    failed: Option<Instant>,
}

/// The right to make a copy; without an end it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    copies: Arc<Copies>,
    id: u64,
    is_ended: bool,
}

/// A copy that somebody waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    copies: Arc<Copies>,
    id: u64,
    /// For messages.
    what: String,
    outcome: watch::Receiver<Option<Outcome>>,
}

/// Nothing of it is copied from or to while this lives.
#[derive(Debug)]
pub(super) struct Leaving<'a> {
    copies: &'a Copies,
    path: String,
}

/// Begins a copy, or joins the same one: then there is no claim. An error that was not told yet is told now.
pub(super) fn begin(
    copies: &Arc<Copies>,
    wanted: &Wanted,
) -> Result<(Option<Claim>, Waiting), MountError> {
    let mut table = copies.table();
    table.forget_old();
    let waiting = |id, outcome: &watch::Sender<_>| Waiting {
        copies: Arc::clone(copies),
        id,
        what: wanted.words(),
        outcome: outcome.subscribe(),
    };
    for Pair { target, .. } in wanted.pairs() {
        let Some(id) = table.targets.get(target.path.as_str()).copied() else {
            continue;
        };
        let Some(copy) = table.copies.get(&id) else {
            continue;
        };
        let is_same = copy.wanted.is(wanted);
        match (copy.failed, is_same) {
            (None, true) => return Ok((None, waiting(id, &copy.outcome))),
            (None, false) => {
                return Err(target.otherwise_there("a copy of something else to it is under way"));
            }
            (Some(_), _) => {
                let failed = table.remove(id).filter(|_| is_same);
                if let Some(Err(error)) = failed.and_then(|copy| copy.outcome.send_replace(None)) {
                    return Err(error);
                }
            }
        }
    }
    for place in wanted
        .pairs()
        .iter()
        .flat_map(|it| [&it.source, &it.target])
    {
        if table.leaving.iter().any(|path| place.overlaps(path)) {
            return Err(place.in_use("it is being removed or renamed at this moment"));
        }
    }
    table.last_id += 1;
    let id = table.last_id;
    let outcome = watch::Sender::new(None);
    let waiting = waiting(id, &outcome);
    for Pair { target, .. } in wanted.pairs() {
        table.targets.insert(target.path.as_str().to_owned(), id);
    }
    let copy = Copy {
        wanted: wanted.clone(),
        outcome,
        failed: None,
    };
    table.copies.insert(id, copy);
    let claim = Claim {
        copies: Arc::clone(copies),
        id,
        is_ended: false,
    };
    Ok((Some(claim), waiting))
}

impl Copies {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets something be removed or renamed. Not what is being copied: the copy would be whole by name only; nor what is being made by a
    /// copy: it would appear after its removal was answered; nor what leaves already: a retry does not walk beside the first walk.
    pub(super) fn leave(&self, place: &Place) -> Result<Leaving<'_>, MountError> {
        let mut table = self.table();
        if table.leaving.iter().any(|path| place.overlaps(path)) {
            return Err(under_way(place));
        }
        let under_way = table.copies.values().filter(|copy| copy.failed.is_none());
        for copy in under_way {
            for Pair { source, target } in copy.wanted.pairs() {
                if place.overlaps(source.path.as_str()) {
                    return Err(place.in_use("it is being copied"));
                }
                if place.overlaps(target.path.as_str()) {
                    let what = copy.wanted.words();
                    return Err(MountError::UnderWay { what });
                }
            }
        }
        let path = place.path.as_str().to_owned();
        table.leaving.push(path.clone());
        Ok(Leaving { copies: self, path })
    }

    /// Refuses to make or change what is being removed or renamed, or what lies in it: it would go with it.
    pub(super) fn refuse_leaving(&self, place: &Place) -> Result<(), MountError> {
        match self.is_leaving(&place.path) {
            true => Err(under_way(place)),
            false => Ok(()),
        }
    }

    /// Whether a path is being removed or renamed, or lies in what is.
    pub(super) fn is_leaving(&self, path: &PoolPath) -> bool {
        self.table()
            .leaving
            .iter()
            .any(|leaving| path.is_in(leaving))
    }

    fn end(&self, id: u64, outcome: Outcome) {
        let mut table = self.table();
        if let Some(copy) = table.copies.get_mut(&id) {
            copy.failed = outcome.is_err().then(Instant::now);
            let is_done = outcome.is_ok();
            copy.outcome.send_replace(Some(outcome));
            // What is done is found at its target from now on.
            if is_done {
                table.remove(id);
            }
        }
    }

    fn told(&self, id: u64) {
        self.table().remove(id);
    }
}

impl Table {
    fn remove(&mut self, id: u64) -> Option<Copy> {
        let copy = self.copies.remove(&id)?;
        self.targets.retain(|_, maker| *maker != id);
        Some(copy)
    }

    fn forget_old(&mut self) {
        let is_kept = |failed: Instant| failed.elapsed() < ERROR_KEPT;
        self.copies
            .retain(|_, copy| copy.failed.is_none_or(is_kept));
        let copies = &self.copies;
        self.targets.retain(|_, id| copies.contains_key(id));
    }
}

impl Claim {
    /// The copy has ended.
    pub(super) fn end(mut self, outcome: Outcome) {
        self.is_ended = true;
        self.copies.end(self.id, outcome);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_ended {
            let reason = "the copy was given up; call again".to_owned();
            let outcome = Err(MountError::Unreachable { reason });
            self.copies.end(self.id, outcome);
        }
    }
}

impl Waiting {
    /// Waits for the end, but not for ever: who asks again finds the copy further on.
    pub(super) async fn outcome(mut self, wait: Duration) -> Outcome {
        let ended = self.outcome.wait_for(Option::is_some);
        let _ = tokio::time::timeout(wait, ended).await;
        self.now()
    }

    /// The end, if it has come.
    pub(super) fn now(self) -> Outcome {
        let outcome = self.outcome.borrow().clone();
        match outcome {
            Some(outcome) => {
                self.copies.told(self.id);
                outcome
            }
            None => Err(MountError::UnderWay { what: self.what }),
        }
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
