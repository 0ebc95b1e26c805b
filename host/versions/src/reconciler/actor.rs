//! The actor of a reconciler: takes desired revisions, commands, faults and moments one at a time, and has at most one attempt under way.
//!
//! A command comes before what goes on by itself; of two commands the first is done first, but for a rollback, which waits for nobody.

mod activate;
mod handle;
mod open;
mod outcome;
mod remember;
mod restore;
mod status;
mod take_over;

use super::attempt::attempt;
use super::candidate::{AttemptOutcome, CandidateKey, Goal, NotReady, Question, Wanted};
use super::command::{Command, DesiredRevision, Reply};
use super::commit::Running;
use super::retry::Retry;
use super::{Migrates, ReconcilerParts, Shared, SwapRequest};
use crate::desired::Desired;
use crate::disk::Disk;
use crate::history::History;
use crate::record::Hold;
use crate::refusal::Refusal;
use crate::refused::PastRefusals;
use crate::status::{Outcome, RefusedVersion};
use crate::trial::Verdict;
use futures::future::BoxFuture;
use restore::Restore;
use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use wasmount_core::driver::VersionFault;

/// How long to wait after a hint that something changed. 50 ms: whoever replaces several files is done by then.
const SETTLE: Duration = Duration::from_millis(50);
/// When nothing is due. A day: any moment far away.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// A reconciler at work.
pub(super) struct Actor {
    parts: Arc<ReconcilerParts>,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    history: History,
    desired: Desired,
    revision: u64,
    settled: u64,
    running: Option<Running>,
    work: Option<Work>,
    swaps: VecDeque<(SwapRequest, Reply<Outcome>)>,
    /// What served when the host ended does not serve yet.
    restores: Option<Restore>,
    /// When to look at what is wanted; none: nothing has changed.
    due: Option<Instant>,
    retry: Retry,
    refused: Option<Refused>,
    refusals: PastRefusals,
    /// Digests of versions that were kept when the others were removed last; none: it is not known what lies there.
    tidied: Option<BTreeSet<String>>,
}

/// What was refused last.
struct Refused {
    told: RefusedVersion,
    /// The same is not tried again.
    for_good: Option<CandidateKey>,
}

/// An attempt under way.
struct Work {
    purpose: Purpose,
    desired: Desired,
    revision: u64,
    future: BoxFuture<'static, Result<AttemptOutcome, NotReady>>,
}

/// What for.
enum Purpose {
    Converge,
    Restore,
    Swap {
        pinned: bool,
        reply: Reply<Outcome>,
    },
    Back {
        hold: Hold,
        reply: Option<Reply<Outcome>>,
    },
}

enum Event {
    Command(Option<Command>),
    Done(Box<Result<AttemptOutcome, NotReady>>),
    Fault(VersionFault),
    Woken,
    Timer,
}

impl Actor {
    pub(super) fn new(
        parts: ReconcilerParts,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let first = {
            let wanted = shared.wanted.lock();
            wanted.unwrap_or_else(PoisonError::into_inner).current()
        };
        Self {
            parts: Arc::new(parts),
            shared,
            commands,
            history: History::default(),
            desired: first,
            revision: 0,
            settled: 0,
            running: None,
            work: None,
            swaps: VecDeque::new(),
            restores: None,
            due: None,
            retry: Retry::default(),
            refused: None,
            refusals: PastRefusals::default(),
            tidied: None,
        }
    }

    /// Returns when it is stopped.
    pub(super) async fn run(mut self) {
        let Some(disk) = self.open().await else {
            return;
        };
        self.restores = self.history.current().map(|_| Restore::default());
        self.due = Some(Instant::now());
        loop {
            self.take_desired();
            self.begin(&disk);
            self.publish();
            match self.next().await {
                Event::Command(None | Some(Command::Stop)) => return,
                Event::Command(Some(command)) => self.command(command, &disk).await,
                Event::Done(attempted) => Box::pin(self.done(*attempted, &disk)).await,
                Event::Fault(fault) => self.fault(fault, &disk),
                Event::Woken => {}
                Event::Timer => self.timer(&disk).await,
            }
        }
    }

    async fn next(&mut self) -> Event {
        let until = self.next_moment();
        let Self {
            commands,
            work,
            running,
            shared,
            ..
        } = self;
        tokio::select! {
            biased;
            command = commands.recv() => Event::Command(command),
            attempted = under_way(work.as_mut()) => Event::Done(Box::new(attempted)),
            fault = next_fault(running.as_mut()) => Event::Fault(fault),
            () = shared.wake.notified() => Event::Woken,
            () = sleep_until(until) => Event::Timer,
        }
    }

    fn next_moment(&self) -> Instant {
        let due = self.due.filter(|_| self.work.is_none());
        let trial = self.running.as_ref().and_then(|it| it.trial.as_ref());
        let moments = [due, trial.map(|trial| trial.ends())];
        let soonest = moments.into_iter().flatten().min();
        soonest.unwrap_or_else(|| Instant::now() + IDLE)
    }

    /// A newer wish ends the attempt at the older one.
    fn take_desired(&mut self) {
        let revision = {
            let wanted = self.shared.wanted.lock();
            wanted.unwrap_or_else(PoisonError::into_inner).take()
        };
        let Some(DesiredRevision {
            desired,
            number,
            changed,
        }) = revision
        else {
            return;
        };
        self.desired = desired;
        self.revision = number;
        self.retry = Retry::default();
        let now = Instant::now();
        if changed {
            self.due = Some(now);
            if matches!(&self.work, Some(work) if matches!(work.purpose, Purpose::Converge)) {
                self.abandon();
            }
        } else {
            let settled = now + SETTLE;
            self.due = Some(self.due.map_or(settled, |due| due.min(settled)));
        }
    }

    /// Begins what comes next, if nothing is under way.
    fn begin(&mut self, disk: &Arc<Disk>) {
        if self.work.is_some() {
            return;
        }
        while let Some((request, reply)) = self.swaps.pop_front() {
            // Who does not wait any more does not want it either.
            if !reply.is_closed() {
                self.begin_swap(request, reply, disk);
                return;
            }
        }
        if self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        if self.is_turn_of_version() {
            self.begin_restore(disk);
        } else if self.history.follows(&self.desired) {
            self.due = None;
            let known = self.history.known(&self.desired.document.plugin);
            let wanted = Wanted {
                serves: self.running.as_ref().map(|it| it.candidate.clone()),
                failed: self.history.failed(),
                refused: self.refused_for_good(),
                kept: self.kept(),
                known,
                records_of: self.records_of(),
            };
            self.start(
                Purpose::Converge,
                self.desired.clone(),
                Goal::Wanted(Box::new(wanted)),
                disk,
            );
        } else {
            self.due = None;
            self.settled = self.revision;
        }
    }

    fn begin_swap(&mut self, request: SwapRequest, reply: Reply<Outcome>, disk: &Arc<Disk>) {
        let SwapRequest {
            allow_service_change,
            desired,
        } = request;
        let pinned = desired.is_some();
        let desired = desired.unwrap_or_else(|| self.desired.clone());
        let wanted = Wanted {
            serves: self.running.as_ref().map(|it| it.candidate.clone()),
            failed: None,
            refused: None,
            kept: self.kept().filter(|_| !allow_service_change),
            known: None,
            records_of: self.records_of(),
        };
        let purpose = Purpose::Swap { pinned, reply };
        self.start(purpose, desired, Goal::Wanted(Box::new(wanted)), disk);
    }

    fn kept(&self) -> Option<crate::services::Kept> {
        self.history.kept_services(self.parts.driver.profile())
    }

    fn records_of(&self) -> Option<String> {
        let migrates = self.parts.migrates != Migrates::AnotherProcess;
        let current = self.history.current().filter(|_| migrates);
        current.map(|entry| entry.record.plugin_version.clone())
    }

    fn start(&mut self, purpose: Purpose, desired: Desired, goal: Goal, disk: &Arc<Disk>) {
        let question = Question {
            parts: Arc::clone(&self.parts),
            disk: Arc::clone(disk),
            desired: desired.clone(),
            goal,
        };
        self.work = Some(Work {
            purpose,
            desired,
            revision: self.revision,
            future: Box::pin(attempt(question)),
        });
    }

    /// Ends what is under way. What was compiled for it is looked for when the next attempt has ended.
    fn abandon(&mut self) -> Option<Purpose> {
        self.tidied = None;
        self.work.take().map(|work| work.purpose)
    }

    /// The trial of the running version, when a window ends.
    async fn timer(&mut self, disk: &Arc<Disk>) {
        let answered = self.parts.driver.calls_answered();
        let Some(running) = &mut self.running else {
            return;
        };
        let verdict = running
            .trial
            .as_mut()
            .map(|trial| trial.look(Instant::now(), answered));
        if verdict != Some(Verdict::Proven) {
            return;
        }
        running.trial = None;
        let mut history = self.history.clone();
        if history.mark_proven() {
            match disk.write(&history).await {
                Ok(_) => self.history = history,
                // It is on trial again after a restart, and may not be gone back to until then.
                Err(error) => {
                    tracing::warn!(%error, "the proven state of the version could not be recorded")
                }
            }
        }
    }
}

/// A version that served before.
fn earlier(entry: &crate::history::Entry) -> Goal {
    Goal::Earlier {
        identity: entry.identity(),
        origin: entry.record.origin.clone(),
        signed_by: entry.record.signed_by.clone(),
    }
}

async fn under_way(work: Option<&mut Work>) -> Result<AttemptOutcome, NotReady> {
    match work {
        Some(work) => (&mut work.future).await,
        None => pending().await,
    }
}

async fn next_fault(running: Option<&mut Running>) -> VersionFault {
    match running {
        Some(running) => match running.faults.recv().await {
            Some(fault) => fault,
            None => pending().await,
        },
        None => pending().await,
    }
}

/// Why an asker is told that nothing came of a wish.
fn overtaken(purpose: Purpose) {
    let reply = match purpose {
        Purpose::Swap { reply, .. } => Some(reply),
        Purpose::Back { reply, .. } => reply,
        Purpose::Converge | Purpose::Restore => None,
    };
    if let Some(reply) = reply {
        // It fails if nobody waits.
        let _ = reply.send(Err(Refusal::Overtaken));
    }
}
