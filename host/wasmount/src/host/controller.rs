//! A controller with several replicas: its records are in the API server, and it works only while it is the leader.
//!
//! A standby host is warm: its sockets answer identity RPCs, its plugins are loaded. The rules of leases are in `wasmount_kubernetes`.

use super::{FatalError, HostOptions};
use crate::fault::Fault;
use crate::readiness::Readiness;
use futures::future::{join_all, pending};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wasmount_core::driver::Driver;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::text::chain;
use wasmount_kubernetes::{Election, KubernetesStore, Term, Withdrawal, connect};
use wasmount_versions::VersionReconciler;

/// Between two attempts to take over the records. 2 s: it needs the API server, which may be unavailable for a moment.
const AGAIN: Duration = Duration::from_secs(2);

/// The options of the command line for controllers.
#[derive(Debug, Clone)]
pub(crate) struct ControllerOptions {
    /// Where records are stored.
    pub(crate) state: StateOptions,
    /// Whether leader election is on: another host may work instead.
    pub(crate) elects: bool,
}

/// Where records are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateOptions {
    /// In the data directory.
    Local,
    /// In the API server.
    Kubernetes {
        /// Their namespace; none: that of the pod.
        namespace: Option<String>,
    },
}

/// The API server, and the namespace of records and leases.
#[derive(Clone)]
pub(super) struct Shared {
    client: kube::Client,
    namespace: String,
    /// The state store.
    pub(super) store: Arc<KubernetesStore>,
}

/// A standby driver, its version reconciler, and how it is withdrawn. The election holds no strong reference to a driver that is removed.
struct Candidate {
    driver: Weak<Driver>,
    reconciler: Weak<VersionReconciler>,
    withdrawal: Withdrawal,
}

/// The elections of a serving host: one for the drivers that it started with, one for each driver that was added later.
pub(super) struct Elections {
    shared: Shared,
    node_name: String,
    readiness: Arc<Readiness>,
    fatal: mpsc::UnboundedSender<FatalError>,
    /// How each driver is withdrawn from its election.
    withdrawals: Mutex<BTreeMap<DriverName, Withdrawal>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Shared {
    /// None if records are local. It sends no request to the API server.
    pub(super) async fn reach(options: &HostOptions) -> Result<Option<Self>, Fault> {
        let StateOptions::Kubernetes { namespace } = &options.controller.state else {
            return Ok(None);
        };
        let connected = connect(&options.kubernetes.api).await;
        let client = connected.map_err(Fault::failed("the records are not usable"))?;
        let missing = "there is no API server: run in a pod, or add --kubeconfig";
        let client = client.ok_or_else(|| Fault::flag("--state", "kubernetes", missing))?;
        let namespace = namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let store = KubernetesStore::new(client.clone(), &namespace);
        Ok(Some(Self {
            client,
            namespace,
            store,
        }))
    }
}

impl Elections {
    /// Creates the set without any election.
    pub(super) fn new(
        shared: &Shared,
        options: &HostOptions,
        readiness: Arc<Readiness>,
        fatal: mpsc::UnboundedSender<FatalError>,
    ) -> Self {
        Self {
            shared: shared.clone(),
            node_name: options.kubernetes.node_name.clone(),
            readiness,
            fatal,
            withdrawals: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Starts an election for standby drivers; they work as soon as this host is the leader for all of them. When it loses the lease, the host ends.
    pub(super) fn start_election(&self, drivers: &[(Arc<Driver>, Arc<VersionReconciler>)]) {
        let election = Election::new(
            self.shared.client.clone(),
            &self.shared.namespace,
            &self.node_name,
            drivers.iter().map(|(driver, _)| driver.name()),
        );
        let candidates = drivers.iter().filter_map(|(driver, reconciler)| {
            let withdrawal = election.withdrawal(driver.name())?;
            let mut withdrawals = lock(&self.withdrawals);
            withdrawals.insert(driver.name().clone(), withdrawal.clone());
            Some(Candidate {
                driver: Arc::downgrade(driver),
                reconciler: Arc::downgrade(reconciler),
                withdrawal,
            })
        });
        let candidates = candidates.collect();
        let (store, readiness) = (self.shared.store.clone(), self.readiness.clone());
        let (fatal, stop) = (self.fatal.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            if let Some(fault) = lead(election, store, candidates, readiness, stop).await {
                // Nothing receives from a host that ends.
                let _ = fatal.send(FatalError { fault, lost: true });
            }
        });
    }

    /// Releases the lease of one driver, so that another host, or this one, can acquire it again. Call it only when no call of the driver
    /// runs any more.
    pub(super) async fn withdraw(&self, driver: &DriverName) {
        let withdrawal = lock(&self.withdrawals).remove(driver);
        if let Some(withdrawal) = withdrawal {
            withdrawal.withdraw().await;
        }
    }

    /// Releases the leases. Call it only when no call runs any more; it takes no longer than `limit`.
    pub(super) async fn release(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        // If the API server does not answer, other hosts wait until the leases expire.
        let _ = tokio::time::timeout(limit, self.tasks.wait()).await;
    }
}

/// Why this host may not work any more; none: it was stopped, or none of the drivers is left.
async fn lead(
    election: Election,
    store: Arc<KubernetesStore>,
    candidates: Vec<Candidate>,
    readiness: Arc<Readiness>,
    stop: CancellationToken,
) -> Option<Fault> {
    let waiting = |lease: &str, by: &str| {
        tracing::info!(lease, leader = by, "standing by");
    };
    let won = async {
        // A sidecar whose Probe is answered requests capabilities at once, and exits if no plugin can answer. A plugin that cannot be loaded does not
        // keep the other drivers from leading.
        readiness.all_tried().await;
        election.win(waiting).await
    };
    let won = tokio::select! {
        won = won => won,
        () = stop.cancelled() => return None,
    };
    let mut leadership = match won {
        Ok(leadership) => leadership,
        Err(error) => return Some(Fault::failed("this host cannot lead")(error)),
    };
    store.forget();
    let term = leadership.term();
    let begun = async {
        join_all(candidates.iter().map(|it| begin(it, &term))).await;
        tracing::info!("leading");
        pending::<Infallible>().await
    };
    let lost = tokio::select! {
        // First: if all drivers were withdrawn, none must be started.
        biased;
        lost = leadership.lost() => lost,
        never = begun => match never {},
        () = stop.cancelled() => {
            leadership.release().await;
            return None;
        }
    };
    let error = lost?;
    for driver in candidates.iter().filter_map(|it| it.driver.upgrade()) {
        driver.stand_by();
    }
    tracing::error!(reason = chain(&error), "leadership lost: the host ends");
    Some(Fault::failed("another host may lead")(error))
}

/// Lets a driver work, with records as its version needs them: the previous leader may have had another version. Not a withdrawn one.
async fn begin(candidate: &Candidate, term: &Term) {
    let may = {
        let (term, withdrawal) = (term.clone(), candidate.withdrawal.clone());
        move || term.lasts() && !withdrawal.is_withdrawn()
    };
    let begun = async {
        loop {
            let (driver, reconciler) = (&candidate.driver, &candidate.reconciler);
            let (Some(driver), Some(reconciler)) = (driver.upgrade(), reconciler.upgrade()) else {
                return;
            };
            let Err(refusal) = reconciler.take_over(may.clone()).await else {
                return driver.work_while(may.clone());
            };
            tracing::error!(
                driver = %driver.name(),
                reason = chain(&refusal),
                "the records cannot be read: the driver is not ready; retrying"
            );
            drop((driver, reconciler));
            sleep(AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        () = candidate.withdrawal.withdrawn() => {}
        () = begun => {}
    }
}
