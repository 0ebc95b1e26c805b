//! Node and CSINode of a host's drivers: one pair of watches, and for each driver one task that compares and corrects, and one that calls
//! NodeGetInfo again.
//!
//! The comparison and the writes are in `wasmount_kubernetes::csi_node`.

use super::HostOptions;
use super::kubernetes::{Cluster, CsiNodeMode};
use crate::readiness::Readiness;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use wasmount_core::document::CsiDriver;
use wasmount_core::driver::Driver;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::csi_node::{
    CsiNodeReconciler, NodeWriter, Renewal, Seen, Writer, clear_to_register, watch,
};

/// State that all drivers of a host share; nothing if CSINode is not watched.
#[derive(Default)]
pub(super) struct CsiNodes {
    seen: Option<watch::Receiver<Seen>>,
    writer: Option<Arc<Writer>>,
}

impl CsiNodes {
    /// Starts the watches.
    pub(super) fn begin(
        options: &HostOptions,
        cluster: &Cluster,
        background: &mut JoinSet<()>,
    ) -> Self {
        let Some(client) = &cluster.client else {
            return Self::default();
        };
        let node_name = &options.kubernetes.node_name;
        let mode = options.kubernetes.csi_node;
        let seen = (mode != CsiNodeMode::Off).then(|| {
            let (seen, work) = watch(client.clone(), node_name.clone());
            background.spawn(work);
            seen
        });
        let writer = || Writer::new(client.clone(), node_name.clone(), &options.data_dir);
        let writer = (mode == CsiNodeMode::Manage).then(|| Arc::new(writer()));
        Self { seen, writer }
    }

    /// Removes what was written for drivers that are no longer served, in the background of the host.
    pub(super) fn retire_all_but(&self, served: BTreeSet<DriverName>, background: &TaskTracker) {
        if let Some(writer) = self.writer.clone() {
            background.spawn(async move { writer.retire_all_but(&served).await });
        }
    }

    /// Returns when no known reason prevents the registration of a driver with kubelet; at once if CSINode is not watched.
    pub(super) fn clear_to_register(
        &self,
        driver: &Driver,
        cluster: &Cluster,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (name, answers) = (driver.name().clone(), driver.node_info_answers());
        let node_name = cluster.node_name.clone();
        let (seen, events) = (self.seen.clone(), cluster.events.clone());
        async move {
            if let Some(seen) = seen {
                clear_to_register(name, answers, node_name, seen, events).await;
            }
        }
    }

    /// Starts the tasks of one driver. `renewal`: how it is registered with kubelet again, if this host does that.
    pub(super) fn spawn_watches(
        &self,
        driver: &Arc<Driver>,
        document: &CsiDriver,
        cluster: &Cluster,
        renewal: Option<Renewal>,
        readiness: &Arc<Readiness>,
        background: &mut JoinSet<()>,
    ) {
        let seconds = document.node_allocatable_update_period_seconds;
        let update_period = seconds.map(Duration::from_secs);
        let watched = driver.clone();
        background.spawn(async move { watched.watch_node_info(update_period).await });
        let (Some(seen), Some(client)) = (&self.seen, &cluster.client) else {
            return;
        };
        let (name, readiness) = (driver.name().clone(), readiness.clone());
        let reconciler = CsiNodeReconciler {
            driver: name.clone(),
            node_name: cluster.node_name.clone(),
            answers: driver.node_info_answers(),
            seen: seen.clone(),
            writer: match &self.writer {
                Some(writer) => NodeWriter::Own(writer.clone()),
                None => NodeWriter::Kubelet(renewal),
            },
            update_period,
            client: client.clone(),
            events: cluster.events.clone(),
            report: Arc::new(move |status| {
                readiness.change(&name, |it| it.listing = Some(status));
            }),
        };
        background.spawn(reconciler.run());
    }
}
