//! Keeps one backend at its desired version. Desired revisions and commands go in, a status comes out, and a separate task runs the reconcile loop.

mod activate;
mod admit;
mod command;
mod outcome;
mod reconcile;
mod records;
mod share;
mod state;
mod status;

use crate::desired::{Desired, RollbackRequest, Sources};
use crate::disk;
use crate::events::{Outcome, VersionEvent};
use crate::history::History;
use crate::refusal::Refusal;
use futures::future::BoxFuture;
use reconcile::ReconcileLoop;
use state::{Command, DesiredRevision, Reply};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wasmount_core::document::Grants;
use wasmount_core::driver::{Driver, RunningCalls};
use wasmount_core::mounter::Mounter;
use wasmount_core::mutex::lock;
use wasmount_core::state::StateStore;
use wasmount_core::status::{Draining, DriverStatus, PastRefusal, VersionRecord};
use wasmount_engine::{Engine, NodeFacts};
use wasmount_network::{Endpoints, Network, Usage};

/// Commands that may wait for the loop. 16: administrators send them.
const COMMANDS: usize = 16;
/// Events that a slow receiver may be behind. 64: receivers write logs and Kubernetes events.
const EVENTS: usize = 64;

/// Passes grants to the mounter; an error states why it failed.
pub type SetGrants = Arc<dyn Fn(Grants) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The dependencies of a reconciler.
#[derive(Clone)]
pub struct ReconcilerParts {
    /// Compiles and runs components.
    pub engine: Arc<Engine>,
    /// The driver that is served.
    pub driver: Arc<Driver>,
    /// Stores the records.
    pub state: Arc<dyn StateStore>,
    /// Performs mounts and pool operations.
    pub mounter: Arc<dyn Mounter>,
    /// Reaches storage systems.
    pub network: Network,
    /// What is known of the node.
    pub node_facts: NodeFacts,
    /// The node of this host; none: a controller outside of the nodes.
    pub node_name: Option<String>,
    /// Fetches components and secrets.
    pub sources: Arc<dyn Sources>,
    /// The reconciler's own directory: `<data>/versions/<driver>`. Created if it is missing; its parent must exist.
    pub directory: PathBuf,
    /// Which process changes the backend's records when a version migrates them.
    pub migrates: Migrates,
    /// Applies grants.
    pub grants: SetGrants,
}

/// Which process changes records: one of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrates {
    /// Another process.
    AnotherProcess,
    /// This process: it does not share them.
    ThisProcess,
    /// Of several processes that share them, the elected one ([`Driver::works`]).
    TheElected,
}

/// A swap.
#[derive(Debug, Clone, Default)]
pub struct SwapRequest {
    /// Services and features may be removed.
    pub allow_service_change: bool,
    /// Another revision than the document's; held until the next swap.
    pub desired: Option<Desired>,
    /// For a share of the volumes only; none: for all.
    pub share: Option<ShareRequest>,
}

/// The share of the volumes that a new version is to serve. If one has a share, its share grows to this one, and with 100 it serves all.
#[derive(Debug, Clone, Copy)]
pub struct ShareRequest {
    /// From 1 to 100.
    pub percent: u8,
    /// After such a time without a fault it serves all; none: as before, or by command only.
    pub promote_after: Option<Duration>,
}

/// Keeps one backend at its desired version. When it is dropped, it stops; the running version continues.
pub struct VersionReconciler {
    parts: Arc<ReconcilerParts>,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// State that the reconciler and its loop share.
struct Shared {
    desired: watch::Sender<DesiredRevision>,
    status: watch::Sender<DriverStatus>,
    history: watch::Sender<History>,
    refusals: watch::Sender<Vec<PastRefusal>>,
    draining: Mutex<Vec<(u64, RunningCalls)>>,
    events: broadcast::Sender<Arc<VersionEvent>>,
    /// The storage systems of the version that serves.
    network: Mutex<Endpoints>,
}

impl VersionReconciler {
    /// Serves the version that served last, if there is one, and reconciles to the desired revision in the background.
    pub async fn start(parts: ReconcilerParts, desired: Desired) -> Arc<Self> {
        let parts = Arc::new(parts);
        let (commands, received) = mpsc::channel(COMMANDS);
        let shared = Arc::new(Shared {
            desired: watch::Sender::new(DesiredRevision { desired, number: 1 }),
            status: watch::Sender::default(),
            history: watch::Sender::default(),
            refusals: watch::Sender::default(),
            draining: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            network: Mutex::default(),
        });
        let work = ReconcileLoop::new(Arc::clone(&parts), Arc::clone(&shared), received);
        let task = tokio::spawn(work.run());
        Arc::new(Self {
            parts,
            shared,
            commands,
            task: Mutex::new(Some(task)),
        })
    }

    /// The document changed. Returns the number of this revision, for [`DriverStatus::settled`].
    pub fn set_desired(&self, desired: Desired) -> u64 {
        let mut number = 0;
        self.shared.desired.send_modify(|revision| {
            revision.desired = desired;
            revision.number += 1;
            number = revision.number;
        });
        number
    }

    /// Something that the document refers to may have changed: component, signature, secret.
    pub fn check_again(&self) {
        self.shared.desired.send_modify(|_| {});
    }

    /// Swaps now, and returns the outcome. Ends any hold at another version.
    pub async fn swap(&self, request: SwapRequest) -> Result<Outcome, Refusal> {
        self.send_command(|reply| Command::Swap(Box::new(request), reply))
            .await
    }

    /// Rolls back, from disk. The backend is held at that version until a swap.
    pub async fn rollback(&self, request: RollbackRequest) -> Result<Outcome, Refusal> {
        self.send_command(|reply| Command::Rollback(request, reply))
            .await
    }

    /// True: changes nothing without a command from now on, across restarts; a failing version is still rolled back. False: follows the document
    /// again.
    pub async fn set_paused(&self, paused: bool) -> Result<(), Refusal> {
        self.send_command(|reply| Command::Pause(paused, reply))
            .await
    }

    /// Rejects new work from now on, across restarts, until [`VersionReconciler::undrain`], and waits at most `grace_period` for running calls to
    /// end. Returns how many still run. If that cannot be written to disk, work is accepted as before.
    pub async fn drain(&self, reason: String, grace_period: Duration) -> Result<usize, Refusal> {
        self.send_command(|reply| Command::Drain(Some(reason), reply))
            .await?;
        // Calls that still run then are reported.
        let _ = timeout(grace_period, self.parts.driver.idle()).await;
        Ok(self.parts.driver.calls_in_flight())
    }

    /// Accepts work again.
    pub async fn undrain(&self) -> Result<(), Refusal> {
        self.send_command(|reply| Command::Drain(None, reply)).await
    }

    /// This process is about to act instead of another one: migrates the records for the version that serves here. Until it succeeds no call may be
    /// made. `may`: whether this process is still elected.
    pub async fn take_over(
        &self,
        may: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<(), Refusal> {
        self.send_command(|reply| Command::TakeOver(Box::new(may), reply))
            .await
    }

    /// The current status.
    pub fn status(&self) -> DriverStatus {
        let mut status = self.shared.status.borrow().clone();
        status.draining = self.shared.draining();
        // After the rest: it includes requests made before this call, whether or not the loop has seen them.
        status.desired = self.shared.desired.borrow().number;
        status
    }

    /// The status and each change of it, except the number of calls of old versions and requests that the loop has not seen yet.
    pub fn watch(&self) -> watch::Receiver<DriverStatus> {
        self.shared.status.subscribe()
    }

    /// What the requests of the version that serves did, by the names of its network grants.
    pub fn network_usage(&self) -> BTreeMap<String, Usage> {
        lock(&self.shared.network).usage()
    }

    /// Events from now on.
    pub fn events(&self) -> broadcast::Receiver<Arc<VersionEvent>> {
        self.shared.events.subscribe()
    }

    /// Versions that are remembered, the newest first.
    pub fn history(&self) -> Vec<VersionRecord> {
        self.shared.history.borrow().records()
    }

    /// Candidates that were rejected, the newest first.
    pub fn refusals(&self) -> Vec<PastRefusal> {
        self.shared.refusals.borrow().clone()
    }

    /// Stops changing anything. The running version continues.
    pub async fn stop(&self) {
        let task = lock(&self.task).take();
        if let Some(task) = task {
            // Fails only if the loop has already ended.
            let _ = self.commands.send(Command::Stop).await;
            let _ = task.await;
        }
    }

    /// Stops, and removes all versions: the backend is deleted.
    pub async fn forget(&self) -> Result<(), Refusal> {
        self.stop().await;
        let driver = self.parts.driver.name();
        self.parts.engine.retain_compiled(driver, &[]).await;
        disk::remove(self.parts.directory.clone()).await
    }

    async fn send_command<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Refusal> {
        let (reply, replied) = oneshot::channel();
        if self.commands.send(command(reply)).await.is_err() {
            return Err(Refusal::Stopped);
        }
        replied.await.unwrap_or(Err(Refusal::Stopped))
    }
}

impl Drop for VersionReconciler {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl Shared {
    /// Old versions that still have calls; drops the others.
    fn draining(&self) -> Vec<Draining> {
        let mut draining = lock(&self.draining);
        draining.retain(|(_, calls)| calls.count() > 0);
        let versions = draining.iter().map(|(number, calls)| Draining {
            number: *number,
            calls: calls.count() as u64,
        });
        versions.collect()
    }

    fn notify(&self, event: VersionEvent) {
        // It fails when there is no receiver.
        let _ = self.events.send(Arc::new(event));
    }
}
