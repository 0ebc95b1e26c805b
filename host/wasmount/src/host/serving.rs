//! A serving host, from bound sockets to the last answer.

use super::backends::Backends;
use super::common::Common;
use super::controller::Elections;
use super::csi_node::CsiNodes;
use super::documents::Documents;
use super::kubernetes::Cluster;
use super::shared_services::SharedServices;
use super::{
    FatalError, HostOptions, control, document_watch, documents, kubernetes, leftovers,
    registration, secret_watch, status_page, storage_backends, storage_watch,
};
use crate::config::Configured;
use crate::fault::Fault;
use crate::metrics::{Metrics, SharedSources};
use crate::readiness::Readiness;
use crate::status_page::StatusPage;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wasmount_core::driver::Role;

/// How long releasing the leases may take at the end. 2 s: without an answer other hosts wait until the leases expire, which is safe.
const LEASES: Duration = Duration::from_secs(2);

/// A serving host.
pub(super) struct Serving {
    backends: Arc<Backends>,
    /// Tasks that end when this is dropped.
    background: JoinSet<()>,
    /// Tasks that must end before the backends do.
    control: JoinSet<()>,
    fatal_errors: mpsc::UnboundedReceiver<FatalError>,
    /// The lease is lost: another host may work already.
    lost: bool,
}

impl Serving {
    /// Opens the services, serves each backend, and follows its files and objects.
    pub(super) async fn start(
        options: HostOptions,
        backends: Vec<Configured>,
        readiness: Arc<Readiness>,
        metrics: Arc<Metrics>,
        descriptors: u64,
        place: registration::Place,
        page: Option<StatusPage>,
    ) -> Result<Self, Fault> {
        let cluster = Cluster::reach(&options.kubernetes).await?;
        let (services, documents) =
            SharedServices::open(&options, &cluster, backends, &readiness).await?;
        metrics.share(SharedSources {
            engine: services.engine.clone(),
            state: services.state.clone(),
            mounter: services.mounter.clone(),
        });
        let Documents { all, states } = documents;
        let mut background = JoinSet::new();
        let csi_nodes = CsiNodes::begin(&options, &cluster, &mut background);
        let (fatal, fatal_errors) = mpsc::unbounded_channel();
        let shared = services.shared.as_ref();
        let elections = shared
            .filter(|_| options.controller.elects)
            .map(|shared| Elections::new(shared, &options, readiness.clone(), fatal.clone()));
        let backends = Backends::new(Common {
            options,
            services,
            cluster,
            csi_nodes,
            place,
            readiness,
            metrics,
            descriptors,
            fatal,
            elections,
        });
        let common = backends.common();
        let objects = storage_backends::open(&backends).await?;
        let coming: BTreeSet<_> = objects.iter().flat_map(|it| it.drivers()).collect();
        let named = all.iter().map(|it| it.document.driver_name.clone());
        let served = named.chain(coming.iter().cloned()).collect();
        leftovers::sweep(&common.services, &common.options.data_dir, served).await;
        let desired = all.into_iter().map(documents::desired).collect();
        backends.begin(desired, coming).await?;
        if let Some(objects) = objects {
            objects.start(&mut background);
        }
        background.spawn(secret_watch::watch(backends.clone()));
        watch_mounts(&backends, &mut background);
        if common.options.role != Role::Controller {
            let node = common.options.kubernetes.node_name.clone();
            let (events, readiness) = (common.cluster.events.clone(), common.readiness.clone());
            background.spawn(kubernetes::report_troubles(events, node, readiness));
        }
        background.spawn(document_watch::keep(backends.clone(), states));
        let mut control = JoinSet::new();
        control::start(&backends, &mut control);
        if let Some(page) = page {
            control.spawn(page.serve(status_page::source(&backends)));
        }
        common.options.log_start();
        Ok(Self {
            backends,
            background,
            control,
            fatal_errors,
            lost: false,
        })
    }

    /// Returns when a socket stops serving unexpectedly, or when this host may not work any more.
    pub(super) async fn fatal_error(&mut self) -> Fault {
        match self.fatal_errors.recv().await {
            Some(FatalError { fault, lost }) => {
                self.lost = lost;
                fault
            }
            None => Fault::failed("the host ends")("no backend is served any more"),
        }
    }

    /// Lets running calls end within `grace`, then closes the sockets. If another host may work already, it does not wait.
    pub(super) async fn stop(&mut self, grace: Duration) {
        let grace = if self.lost { Duration::ZERO } else { grace };
        self.control.shutdown().await;
        self.background.abort_all();
        let unfinished = self.backends.stop(grace, LEASES).await;
        self.backends.common().services.network.close().await;
        if unfinished == 0 {
            tracing::info!("stopped");
        } else {
            tracing::warn!(
                unfinished,
                "stopped; the next start recovers unfinished work"
            );
        }
    }
}

/// Keeps the host unready while no mounter can mount, or kubelet would not see the mounts.
fn watch_mounts(backends: &Arc<Backends>, background: &mut JoinSet<()>) {
    let common = backends.common();
    let (options, services) = (&common.options, &common.services);
    let for_kubelet =
        options.role != Role::Controller && storage_watch::beside_kubelet(&options.kubelet_dir);
    let readiness = common.readiness.clone();
    match &services.remote {
        Some(remote) => {
            let (remote, backends) = (remote.clone(), backends.clone());
            let drivers = move || {
                let all = backends.all().into_values();
                all.map(|seen| seen.driver).collect()
            };
            let watch = storage_watch::watch_mounter(
                services.mounter.clone(),
                remote,
                drivers,
                for_kubelet,
                readiness,
            );
            background.spawn(watch);
        }
        None if for_kubelet => {
            background.spawn(storage_watch::watch_roots(
                services.mounter.clone(),
                readiness,
            ));
        }
        None => readiness.set_host(None),
    }
}
