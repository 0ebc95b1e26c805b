//! A serving host, from bound sockets to the last answer.

use super::backends::Backends;
use super::common::Common;
use super::controller::Elections;
use super::csi_node::CsiNodes;
use super::documents::Documents;
use super::fatal::{FatalError, FatalReporter};
use super::kubernetes::Cluster;
use super::shared_services::SharedServices;
use super::{
    HostOptions, control, document_watch, documents, kubernetes, leftovers, mounter_watch,
    registration, secret_watch, shared_roots, storage_backends,
};
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
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
    breaches: mpsc::UnboundedReceiver<FatalError>,
    /// The lease is lost: another host may work already.
    lost: bool,
}

impl Serving {
    /// Serves each backend, and follows its files and objects.
    pub(super) async fn start(
        options: HostOptions,
        services: SharedServices,
        documents: Documents,
        readiness: &Arc<Readiness>,
        metrics: &Arc<Metrics>,
        descriptors: u64,
        place: registration::Place,
    ) -> Result<Self, Fault> {
        let cluster = Cluster::reach(&options.kubernetes).await;
        let mut background = JoinSet::new();
        let csi_nodes = CsiNodes::begin(&options, &cluster, &mut background);
        let (fatal, breaches) = mpsc::unbounded_channel();
        let fatal = FatalReporter(fatal);
        let shared = services
            .shared
            .as_ref()
            .filter(|_| options.controller.elects);
        let elections = shared.map(|shared| {
            let (readiness, fatal) = (readiness.clone(), fatal.clone());
            Elections::new(shared, &options, readiness, fatal)
        });
        let backends = Backends::new(Common {
            options,
            services,
            cluster,
            csi_nodes,
            place,
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            descriptors,
            fatal,
            elections,
        });
        let mut serving = Self {
            backends: backends.clone(),
            background,
            control: JoinSet::new(),
            breaches,
            lost: false,
        };
        let Documents { all, looks } = documents;
        let objects = storage_backends::open(&backends).await?;
        let coming: BTreeSet<_> = objects.iter().flat_map(|it| it.drivers()).collect();
        let named = all.iter().map(|it| it.document.driver_name.clone());
        let served = named.chain(coming.iter().cloned()).collect();
        let common = backends.common();
        leftovers::sweep(&common.services, &common.options.data_dir, served).await;
        backends
            .begin(all.into_iter().map(documents::desired).collect(), coming)
            .await?;
        if let Some(objects) = objects {
            objects.start(&mut serving.background);
        }
        serving
            .background
            .spawn(secret_watch::watch(backends.clone()));
        serving.watch_mounts(readiness);
        let common = backends.common();
        if common.options.role != Role::Controller {
            let node = common.options.kubernetes.node_name.clone();
            let told =
                kubernetes::tell_troubles(common.cluster.events().clone(), node, readiness.clone());
            serving.background.spawn(told);
        }
        serving
            .background
            .spawn(document_watch::keep(backends.clone(), looks));
        control::start(&backends, &mut serving.control);
        Ok(serving)
    }

    /// Keeps the host unready while no mounter can mount, or kubelet would not see the mounts.
    fn watch_mounts(&mut self, readiness: &Arc<Readiness>) {
        let common = self.backends.common();
        let (options, services) = (&common.options, &common.services);
        let for_kubelet =
            options.role != Role::Controller && shared_roots::beside_kubelet(&options.kubelet_dir);
        let readiness = readiness.clone();
        match &services.remote {
            Some(remote) => {
                let (remote, backends) = (remote.clone(), self.backends.clone());
                let drivers = move || {
                    let all = backends.all().into_values();
                    all.map(|seen| seen.driver).collect()
                };
                let watch = mounter_watch::watch(remote, drivers, for_kubelet, readiness);
                self.background.spawn(watch);
            }
            None if for_kubelet => {
                let watch = shared_roots::watch(services.mounter.clone(), readiness);
                self.background.spawn(watch);
            }
            None => readiness.set_host(None),
        }
    }

    /// Returns when a socket stops serving unexpectedly, or when this host may not work any more.
    pub(super) async fn fatal_error(&mut self) -> Fault {
        match self.breaches.recv().await {
            Some(FatalError { fault, lost }) => {
                self.lost = lost;
                fault
            }
            None => Fault::room("the host ends")("nothing is served any more"),
        }
    }

    /// Lets running calls end within `grace`, then closes the sockets. If another host may work already, it does not wait.
    pub(super) async fn stop(&mut self, grace: Duration) {
        let grace = if self.lost { Duration::ZERO } else { grace };
        self.control.shutdown().await;
        self.background.abort_all();
        let unfinished = self.backends.stop(grace, LEASES).await;
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
