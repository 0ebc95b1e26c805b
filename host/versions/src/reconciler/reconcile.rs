//! The reconcile loop of one backend: takes desired revisions, commands, faults and timers one at a time, and has at most one attempt under way.
//!
//! A command is done before other work. Commands are done in order, except a rollback, which does not wait.

use super::state::{
    Admission, Attempt, Command, DesiredRevision, Goal, NotReady, Refused, Reply, Restore, Retry,
    Running, SharedVersion,
};
use super::{ReconcilerParts, Shared, SwapRequest};
use crate::desired::Desired;
use crate::disk::Disk;
use crate::events::Outcome;
use crate::history::History;
use crate::refused::PastRefusals;
use futures::future::BoxFuture;
use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use wasmount_core::driver::{QuiesceGuard, VersionFault};

/// How long to wait after a hint that something changed. 50 ms: an administrator who replaces several files has finished by then.
const SETTLE: Duration = Duration::from_millis(50);
/// The timer when nothing is due. A day: any moment far away.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// The state of the loop.
pub(super) struct ReconcileLoop {
    pub(super) parts: Arc<ReconcilerParts>,
    pub(super) shared: Arc<Shared>,
    pub(super) disk: Arc<Disk>,
    commands: mpsc::Receiver<Command>,
    revisions: watch::Receiver<DesiredRevision>,
    pub(super) history: History,
    pub(super) desired: Desired,
    pub(super) revision: u64,
    /// The last revision with a known outcome.
    pub(super) settled: u64,
    pub(super) running: Option<Running>,
    /// The version that serves a share of the volumes; the running one serves the rest.
    pub(super) share: Option<SharedVersion>,
    /// Calls wait at a start until that version serves too, or no more.
    pub(super) share_hold: Option<QuiesceGuard>,
    pub(super) work: Option<Work>,
    pub(super) swaps: VecDeque<(SwapRequest, Reply<Outcome>)>,
    /// The version that served when the host ended does not serve yet.
    pub(super) restore: Option<Restore>,
    /// When to consider the desired revision; none: nothing has changed.
    pub(super) due: Option<Instant>,
    pub(super) retry: Retry,
    pub(super) refused: Option<Refused>,
    pub(super) refusals: PastRefusals,
    /// Digests of the versions that were kept when the others were last removed; none: the content of the directory is not known.
    pub(super) tidied: Option<BTreeSet<String>>,
}

/// An attempt under way.
pub(super) struct Work {
    pub(super) goal: Goal,
    pub(super) desired: Desired,
    pub(super) revision: u64,
    pub(super) reply: Option<Reply<Outcome>>,
    future: BoxFuture<'static, Result<Admission, NotReady>>,
}

enum Event {
    Command(Option<Command>),
    Done(Box<Result<Admission, NotReady>>),
    Fault(VersionFault),
    ShareFault(VersionFault),
    PoolsChecked(Vec<String>),
    Desired,
    Timer,
}

impl ReconcileLoop {
    pub(super) fn new(
        parts: Arc<ReconcilerParts>,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let mut revisions = shared.desired.subscribe();
        let (desired, revision) = {
            let first = revisions.borrow_and_update();
            (first.desired.clone(), first.number)
        };
        Self {
            disk: Disk::new(parts.directory.clone()),
            parts,
            shared,
            commands,
            revisions,
            history: History::default(),
            desired,
            revision,
            settled: 0,
            running: None,
            share: None,
            share_hold: None,
            work: None,
            swaps: VecDeque::new(),
            restore: None,
            due: None,
            retry: Retry::default(),
            refused: None,
            refusals: PastRefusals::default(),
            tidied: None,
        }
    }

    /// Returns when it is stopped.
    pub(super) async fn run(mut self) {
        if !self.open().await {
            return;
        }
        self.restore = self.history.current().map(|_| Restore::default());
        self.due = Some(Instant::now());
        loop {
            self.take_desired();
            self.begin().await;
            self.publish();
            match self.next().await {
                Event::Command(None | Some(Command::Stop)) => return,
                Event::Command(Some(command)) => self.command(command).await,
                Event::Done(attempted) => Box::pin(self.finish(*attempted)).await,
                Event::Fault(fault) => self.fault(fault),
                Event::ShareFault(fault) => self.share_fault(fault).await,
                Event::PoolsChecked(doubts) => {
                    if let Some(running) = &mut self.running {
                        running.pool_check = None;
                        running.doubts = doubts;
                    }
                }
                // For `take_desired`.
                Event::Desired => self.revisions.mark_changed(),
                Event::Timer => {
                    self.check_trial().await;
                    self.check_promotion().await;
                }
            }
        }
    }

    /// Reads the history that the previous process left, as soon as the disk returns it. False: it was stopped before.
    async fn open(&mut self) -> bool {
        // Of its own: what the disk refuses must not count as a plugin's accidents.
        let mut retry = Retry::default();
        loop {
            let opened = match self.disk.open().await {
                Ok(history) => self.settled(history).await,
                Err(refusal) => Err(refusal),
            };
            let refusal = match opened {
                Ok(history) => {
                    self.history = history;
                    // The administrator's drain applies before the first call reaches a plugin.
                    self.enforce_drain();
                    self.refusals = self.disk.refusals().await;
                    self.shared
                        .refusals
                        .send_replace(self.refusals.newest_first());
                    return true;
                }
                Err(refusal) => refusal,
            };
            // Whatever the reason: nothing serves before.
            let until = Instant::now() + retry.pause();
            self.refuse(&refusal, None, true);
            self.publish();
            loop {
                tokio::select! {
                    command = self.commands.recv() => match command {
                        None | Some(Command::Stop) => return false,
                        // Dropping it notifies its client that nothing was done.
                        Some(command) => drop(command),
                    },
                    () = sleep_until(until) => break,
                }
            }
        }
    }

    async fn next(&mut self) -> Event {
        let until = self.next_moment();
        let (faults, pools) = match &mut self.running {
            Some(running) => (Some(&mut running.faults), running.pool_check.as_mut()),
            None => (None, None),
        };
        let of_share = self.share.as_mut().map(|it| &mut it.running.faults);
        tokio::select! {
            biased;
            command = self.commands.recv() => Event::Command(command),
            attempted = or_pending(self.work.as_mut().map(|work| &mut work.future)) => Event::Done(Box::new(attempted)),
            fault = next_fault(faults) => Event::Fault(fault),
            fault = next_fault(of_share) => Event::ShareFault(fault),
            doubts = or_pending(pools) => Event::PoolsChecked(doubts),
            // The sender is in `shared`.
            _ = self.revisions.changed() => Event::Desired,
            () = sleep_until(until) => Event::Timer,
        }
    }

    fn next_moment(&self) -> Instant {
        let due = self.due.filter(|_| self.work.is_none());
        let trial = self.running.as_ref().and_then(|it| it.trial.as_ref());
        let promotion = self.share.as_ref().and_then(|it| it.promotion.as_ref());
        let promotion = promotion.filter(|_| self.work.is_none());
        let moments = [
            due,
            trial.map(|trial| trial.ends),
            promotion.map(|promotion| promotion.at),
        ];
        let soonest = moments.into_iter().flatten().min();
        soonest.unwrap_or_else(|| Instant::now() + IDLE)
    }

    /// A newer revision ends the attempt at the older one. The same revision again is a reason to check: what it refers to may have changed.
    fn take_desired(&mut self) {
        if !self.revisions.has_changed().unwrap_or_default() {
            return;
        }
        let is_other = {
            let revision = self.revisions.borrow_and_update();
            self.revision = revision.number;
            let is_other = revision.desired != self.desired;
            if is_other {
                self.desired.clone_from(&revision.desired);
            }
            is_other
        };
        self.retry = Retry::default();
        let now = Instant::now();
        if is_other {
            self.due = Some(now);
            self.abandon_if(|goal| matches!(goal, Goal::Converge));
        } else {
            let settled = now + SETTLE;
            self.due = Some(self.due.map_or(settled, |due| due.min(settled)));
        }
    }

    /// Starts the next attempt, if none is under way.
    async fn begin(&mut self) {
        if self.work.is_some() || self.restores_share() {
            return;
        }
        while let Some((request, reply)) = self.swaps.pop_front() {
            // If its client has gone, the swap is no longer needed.
            if reply.is_closed() {
                continue;
            }
            match self.goal_of(&request).await {
                Ok(goal) => {
                    let desired = request.desired.unwrap_or_else(|| self.desired.clone());
                    return self.start(goal, desired, Some(reply));
                }
                Err(done) => {
                    self.publish();
                    let _ = reply.send(*done);
                }
            }
        }
        if self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.due = None;
        let follows = self.history.follows(&self.desired);
        let restore = self.restore.as_ref();
        if restore.is_some_and(|restore| !restore.is_tried || !follows) {
            let served = self.history.current().and_then(|entry| entry.desired());
            match served.cloned() {
                Some(desired) => self.start(Goal::Restore, desired, None),
                None => {
                    self.restore = None;
                    self.due = Some(Instant::now());
                }
            }
        } else if follows {
            self.start(Goal::Converge, self.desired.clone(), None);
        } else {
            self.settled = self.revision;
        }
    }

    pub(super) fn start(&mut self, goal: Goal, desired: Desired, reply: Option<Reply<Outcome>>) {
        let attempt = Attempt {
            parts: Arc::clone(&self.parts),
            disk: Arc::clone(&self.disk),
            history: self.history.clone(),
            goal: goal.clone(),
            desired: desired.clone(),
            drain: self.policy(&goal, &desired).drain,
            serving: self.running.as_ref().map(|it| it.serving.clone()),
            refused: self.refused_for_good(),
        };
        self.work = Some(Work {
            goal,
            desired,
            revision: self.revision,
            reply,
            future: Box::pin(attempt.admit()),
        });
    }

    /// Ends the attempt under way. Compiled code of it is removed when the next attempt has ended.
    pub(super) fn abandon(&mut self) -> Option<Work> {
        self.tidied = None;
        self.work.take()
    }

    /// Ends the attempt under way if its goal is one of these.
    pub(super) fn abandon_if(&mut self, so: impl Fn(&Goal) -> bool) -> bool {
        let ends = self.work.as_ref().is_some_and(|work| so(&work.goal));
        if ends {
            self.abandon();
        }
        ends
    }

    /// Checks the trial of the running version when a window ends.
    async fn check_trial(&mut self) {
        let answered = self.parts.driver.calls_answered();
        let Some(running) = &mut self.running else {
            return;
        };
        let trial = running.trial.as_mut();
        if !trial.is_some_and(|trial| trial.is_proven(Instant::now(), answered)) {
            return;
        }
        running.trial = None;
        let mut history = self.history.clone();
        if history.mark_proven() {
            match self.disk.write(&history).await {
                Ok(_) => self.history = history,
                // It is on trial again after a restart, and cannot be rolled back to until then.
                Err(error) => {
                    tracing::warn!(%error, "the proven state of the version could not be recorded")
                }
            }
        }
    }
}

async fn or_pending<T>(future: Option<&mut BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn next_fault(faults: Option<&mut mpsc::Receiver<VersionFault>>) -> VersionFault {
    if let Some(faults) = faults
        && let Some(fault) = faults.recv().await
    {
        return fault;
    }
    pending().await
}
