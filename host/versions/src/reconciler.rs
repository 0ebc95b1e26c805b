//! Keeps one backend at its desired version. Desired revisions and commands go in, a status comes out, and a task of its own runs the reconcile loop.

mod activate;
mod admit;
mod command;
mod outcome;
mod reconcile;
mod records;
mod state;

use crate::desired::{Desired, RollbackRequest, Sources};
use crate::disk;
use crate::history::History;
use crate::record::VersionRecord;
use crate::refusal::Refusal;
use crate::refused::PastRefusal;
use crate::status::{DrainOutcome, Outcome, ReconcilerStatus, VersionEvent};
use futures::future::BoxFuture;
use reconcile::ReconcileLoop;
use state::{Command, DesiredRevision, Reply};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wasmount_core::document::Grants;
use wasmount_core::driver::{Driver, Retired};
use wasmount_core::mounter::Mounter;
use wasmount_core::state::StateStore;
use wasmount_core::status::Draining;
use wasmount_engine::Engine;

/// Commands that may wait for the loop. 16: they are people's.
const COMMANDS: usize = 16;
/// Events that a slow listener may have ahead of it. 64: listeners tell people.
const EVENTS: usize = 64;

/// Has the mount room grant this from now on; in words why not.
pub type SetGrants = Arc<dyn Fn(Grants) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What a reconciler works with.
#[derive(Clone)]
pub struct ReconcilerParts {
    /// Runs components.
    pub engine: Arc<Engine>,
    /// The driver that is served.
    pub driver: Arc<Driver>,
    /// Records.
    pub state: Arc<dyn StateStore>,
    /// Mounts and pools.
    pub mounter: Arc<dyn Mounter>,
    /// Where this host runs; absent when it is a controller outside of the nodes.
    pub node_name: Option<String>,
    /// Where components and secrets come from.
    pub sources: Arc<dyn Sources>,
    /// The reconciler's own directory: `<data>/versions/<driver>`. Made if need be; its parent must be there.
    pub directory: PathBuf,
    /// Who changes the backend's records when a version wants another form of them.
    pub migrates: Migrates,
    /// Puts grants to use.
    pub grants: SetGrants,
}

/// Who changes records: one process of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrates {
    /// Another process.
    AnotherProcess,
    /// This one: it is alone with them.
    ThisProcess,
    /// Of several that share them, the one that works ([`Driver::works`]).
    TheElected,
}

/// What is to be swapped to.
#[derive(Debug, Clone, Default)]
pub struct SwapRequest {
    /// Services and features may go.
    pub allow_service_change: bool,
    /// Other than the document; held there until the next swap.
    pub desired: Option<Desired>,
}

/// Keeps one backend. Dropped, it stops; what serves goes on.
pub struct VersionReconciler {
    driver: Arc<Driver>,
    engine: Arc<Engine>,
    directory: PathBuf,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the reconciler and its loop both see.
struct Shared {
    desired: watch::Sender<DesiredRevision>,
    status: watch::Sender<ReconcilerStatus>,
    history: watch::Sender<History>,
    refusals: watch::Sender<Vec<PastRefusal>>,
    draining: Mutex<Vec<(u64, Retired)>>,
    events: broadcast::Sender<Arc<VersionEvent>>,
}

impl VersionReconciler {
    /// Serves what served last, if anything did, and converges to what is desired, in the background.
    pub async fn start(parts: ReconcilerParts, desired: Desired) -> Arc<Self> {
        let driver = Arc::clone(&parts.driver);
        let (engine, directory) = (Arc::clone(&parts.engine), parts.directory.clone());
        let (commands, received) = mpsc::channel(COMMANDS);
        let shared = Arc::new(Shared {
            desired: watch::Sender::new(DesiredRevision { desired, number: 1 }),
            status: watch::Sender::new(ReconcilerStatus::loading()),
            history: watch::Sender::default(),
            refusals: watch::Sender::default(),
            draining: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
        });
        let work = ReconcileLoop::new(parts, Arc::clone(&shared), received);
        let task = tokio::spawn(work.run());
        Arc::new(Self {
            driver,
            engine,
            directory,
            shared,
            commands,
            task: Mutex::new(Some(task)),
        })
    }

    /// The document changed. Returns the number of this revision, for [`ReconcilerStatus::settled`].
    pub fn set_desired(&self, desired: Desired) -> u64 {
        let mut number = 0;
        self.shared.desired.send_modify(|revision| {
            revision.desired = desired;
            revision.number += 1;
            number = revision.number;
        });
        number
    }

    /// Something that the document points to may have changed: component, signature, secret.
    pub fn look_again(&self) {
        self.shared.desired.send_modify(|_| {});
    }

    /// Swaps now, and says what became of it. Lifts whatever holds the backend at another version.
    pub async fn swap(&self, request: SwapRequest) -> Result<Outcome, Refusal> {
        self.ask(|reply| Command::Swap(Box::new(request), reply))
            .await
    }

    /// Goes back, from disk. The backend is held there until a swap.
    pub async fn rollback(&self, request: RollbackRequest) -> Result<Outcome, Refusal> {
        self.ask(|reply| Command::Rollback(request, reply)).await
    }

    /// Nothing changes by itself from now on, across restarts; a failing version is still taken back.
    pub async fn pause(&self) -> Result<(), Refusal> {
        self.ask(|reply| Command::Pause(true, reply)).await
    }

    /// The document is followed again.
    pub async fn resume(&self) -> Result<(), Refusal> {
        self.ask(|reply| Command::Pause(false, reply)).await
    }

    /// Takes no new work from now on, across restarts, until [`VersionReconciler::undrain`], and waits at most `patience` for running calls to end. If that
    /// cannot be written down, work is taken as before.
    pub async fn drain(&self, reason: String, patience: Duration) -> Result<DrainOutcome, Refusal> {
        self.ask(|reply| Command::Drain(Some(reason), reply))
            .await?;
        // What still runs then is said.
        let _ = timeout(patience, self.driver.idle()).await;
        Ok(DrainOutcome {
            calls: self.driver.calls_in_flight(),
        })
    }

    /// Takes work again.
    pub async fn undrain(&self) -> Result<(), Refusal> {
        self.ask(|reply| Command::Drain(None, reply)).await
    }

    /// This process is about to work, where another one has: what it has of the records becomes what the version wants that serves here. Until it
    /// succeeds no call may be made. `may`: whether its turn lasts.
    pub async fn take_over(
        &self,
        may: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<(), Refusal> {
        self.ask(|reply| Command::TakeOver(Box::new(may), reply))
            .await
    }

    /// How it stands.
    pub fn status(&self) -> ReconcilerStatus {
        let mut status = self.shared.status.borrow().clone();
        status.draining = self.shared.draining();
        // After the rest: what was asked for before this call is in it, whether or not the loop has looked yet.
        status.wanted = self.shared.desired.borrow().number;
        status
    }

    /// The same, and each change of it, but for how many calls old versions have and what the loop has not yet looked at.
    pub fn watch(&self) -> watch::Receiver<ReconcilerStatus> {
        self.shared.status.subscribe()
    }

    /// What happens from now on.
    pub fn events(&self) -> broadcast::Receiver<Arc<VersionEvent>> {
        self.shared.events.subscribe()
    }

    /// Versions that are remembered, the newest first.
    pub fn history(&self) -> Vec<VersionRecord> {
        self.shared.history.borrow().records()
    }

    /// Candidates that were refused, the newest first.
    pub fn refusals(&self) -> Vec<PastRefusal> {
        self.shared.refusals.borrow().clone()
    }

    /// Digests of components that this backend may need at any moment: the compiled forms of the others may go.
    pub fn kept_digests(&self) -> Vec<String> {
        let history = self.history();
        let kept = history.iter().filter(|record| record.is_kept);
        kept.map(|record| record.digest.clone()).collect()
    }

    /// Stops changing anything. What serves goes on.
    pub async fn stop(&self) {
        let task = self.task();
        if let Some(task) = task {
            // Fails only if the loop has ended already.
            let _ = self.commands.send(Command::Stop).await;
            let _ = task.await;
        }
    }

    /// Stops, and forgets all versions: the backend is gone.
    pub async fn forget(&self) -> Result<(), Refusal> {
        self.stop().await;
        let driver = self.driver.name();
        self.engine.retain_compiled(driver, &[]).await;
        disk::remove(self.directory.clone()).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refusal> {
        let (reply, replied) = oneshot::channel();
        if self.commands.send(command(reply)).await.is_err() {
            return Err(Refusal::Stopped);
        }
        replied.await.unwrap_or(Err(Refusal::Stopped))
    }

    fn task(&self) -> Option<JoinHandle<()>> {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.take()
    }
}

impl Drop for VersionReconciler {
    fn drop(&mut self) {
        if let Some(task) = self.task() {
            task.abort();
        }
    }
}

impl Shared {
    /// Old versions that have calls; the others are forgotten.
    fn draining(&self) -> Vec<Draining> {
        let mut draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        draining.retain(|(_, version)| version.calls_in_flight() > 0);
        let versions = draining.iter().map(|(number, version)| Draining {
            number: *number,
            calls: version.calls_in_flight() as u64,
        });
        versions.collect()
    }

    fn tell(&self, event: VersionEvent) {
        // It fails when nobody listens.
        let _ = self.events.send(Arc::new(event));
    }
}
