//! One running backend: its driver, its socket, its version reconciler, and the tasks that watch them.
//!
//! Every task is held in a set that aborts it on drop: an early return leaves neither socket nor task.

use super::common::Common;
use super::follow::{FileStates, changed, states_of};
use super::node_facts::{Listener, Teller};
use super::registration::Registration;
use super::sources::{self, HostSources};
use super::{
    FatalError, HostOptions, VERSIONS, csi_drivers, descriptors, local_mounts, make_directory,
    private_directory, storage_watch, version_watch,
};
use crate::fault::Fault;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use wasmount_core::document::Grants;
use wasmount_core::driver::{Driver, DriverConfig, Role, ServingPolicy};
use wasmount_core::names::DriverName;
use wasmount_csi::server;
use wasmount_kubernetes::csi_node::Renewal;
use wasmount_kubernetes::storage_backend::SecretReader;
use wasmount_kubernetes::{report_nodes, report_plugin_faults};
use wasmount_socket::{BoundSocket, SocketError};
use wasmount_versions::{Desired, Migrates, ReconcilerParts, SetGrants, VersionReconciler};

/// The mode that kubelet gives a plugin's directory.
const SOCKET_DIRECTORY_MODE: u32 = 0o750;

/// Nodes whose failed registration waits to be reported. 64: more than the events that are written one after the other.
const NODE_REPORTS: usize = 64;

/// A backend that is being served.
pub(super) struct Backend {
    pub(super) driver: Arc<Driver>,
    pub(super) reconciler: Arc<VersionReconciler>,
    /// The desired revision of its newest document.
    pub(super) desired: watch::Sender<Desired>,
    registration: Option<Registration>,
    server: JoinSet<()>,
    background: JoinSet<()>,
    closed: CancellationToken,
}

impl Backend {
    /// Binds the socket, claims the volumes to recover, serves, and starts the version reconciler and the registration. It waits for no plugin.
    pub(super) async fn start(
        common: &Arc<Common>,
        desired: Desired,
        drivers: usize,
    ) -> Result<Self, Fault> {
        let options = &common.options;
        let document = &desired.document;
        let name = document.driver_name.clone();
        let path = options.socket(&name);
        let socket = bind(&path).map_err(Fault::failed("a CSI socket is not usable"))?;
        let config = DriverConfig {
            name: name.clone(),
            role: options.role,
            profile: options.profile,
            node_id: options.node_id.clone(),
            policy: ServingPolicy::of(document),
        };
        let services = &common.services;
        let driver = Driver::new(config, services.mounter.clone(), services.state.clone());
        if options.controller.elects {
            driver.stand_by();
        }
        if let Some(reason) = &services.lost_records {
            driver.lose_records(reason.clone());
        }
        // Recovery of volumes that an earlier host staged needs the grants.
        grant(common, &name, Some(document.grants.clone()))
            .await
            .map_err(Fault::failed("the grants of a document are not usable"))?;
        // With a mounter in another process, recovery starts as soon as that mounter answers.
        if services.remote.is_none() {
            storage_watch::recover(&driver).await;
        }
        common.readiness.add(&name);
        let closed = CancellationToken::new();
        let mut server = JoinSet::new();
        let connections = descriptors::connections_of_each(common.descriptors, drivers);
        let calls = common.metrics.calls();
        let serving = server::serve(socket, driver.clone(), connections, calls, closed.clone());
        let (fatal, ended) = (common.fatal.clone(), closed.clone());
        server.spawn(async move {
            let what = "a CSI socket stopped serving";
            let fault = match serving.await {
                Err(error) => Fault::failed(what)(error),
                Ok(()) if !ended.is_cancelled() => Fault::failed(what)("without a request to stop"),
                Ok(()) => return,
            };
            // Nothing receives from a host that ends.
            let _ = fatal.send(FatalError { fault, lost: false });
        });
        common
            .readiness
            .change(&name, |it| it.socket = Some(path.clone()));

        let clear = common.csi_nodes.clear_to_register(&driver, &common.cluster);
        let (cluster, readiness) = (&common.cluster, &common.readiness);
        common.place.clear(&name);
        let succeeded = services.succeeded;
        let registration = common
            .place
            .begin(&driver, path, succeeded, clear, cluster, readiness);
        let versions = options.data_dir.join(VERSIONS);
        private_directory(&versions).map_err(Fault::failed(format!(
            "the directory {} cannot be made",
            versions.display()
        )))?;
        let parts = ReconcilerParts {
            engine: services.engine.clone(),
            driver: driver.clone(),
            state: services.state.clone(),
            mounter: services.mounter.clone(),
            network: services.network.clone(),
            node_facts: services.node_facts.clone(),
            node_name: Some(options.node_id.to_string()),
            sources: Arc::new(HostSources {
                secrets: common.cluster.client.clone().map(SecretReader::new),
            }),
            directory: versions.join(name.as_str()),
            migrates: migrates(options),
            grants: set_grants(common, &name),
        };
        let reconciler = VersionReconciler::start(parts, desired.clone()).await;
        let mut backend = Self {
            driver,
            reconciler,
            desired: watch::Sender::new(desired),
            registration,
            server,
            background: JoinSet::new(),
            closed,
        };
        backend.spawn_watches(common);
        Ok(backend)
    }

    /// Starts the tasks that run beside the calls.
    fn spawn_watches(&mut self, common: &Arc<Common>) {
        let (driver, background) = (&self.driver, &mut self.background);
        let (cluster, readiness) = (&common.cluster, &common.readiness);
        let options = &common.options;
        if options.role != Role::Controller {
            let renewal = self.registration.as_ref().map(|registration| {
                let registrar = registration.registrar.clone();
                Renewal {
                    registration: registrar.status(),
                    renew: Arc::new(move || registrar.renew()),
                }
            });
            let document = &self.desired.borrow().document.csi_driver;
            let nodes = &common.csi_nodes;
            nodes.spawn_watches(driver, document, cluster, renewal, readiness, background);
        }
        let services = &common.services;
        if let Some(listener) = Listener::of(options.role, &services.own_node, cluster) {
            let teller = Teller {
                driver: driver.clone(),
                desired: self.desired.subscribe(),
                node_facts: services.node_facts.clone(),
                mounter: services.mounter.clone(),
                listener,
            };
            background.spawn(teller.run());
        }
        let events = &cluster.events;
        if let Some(nodes) = &services.nodes {
            let (sender, reports) = mpsc::channel(NODE_REPORTS);
            background.spawn(driver.clone().register_nodes(nodes.clone(), sender));
            let name = driver.name().clone();
            background.spawn(report_nodes(events.clone(), name, reports));
        }
        background.spawn(report_plugin_faults(events.clone(), driver.faults()));
        background.spawn(storage_watch::watch_pools(
            driver.clone(),
            readiness.clone(),
        ));
        common.metrics.add(driver.clone(), self.reconciler.clone());
        version_watch::start(&self.reconciler, driver, common, background);
        if options.kubernetes.applies_csi_driver
            && let Some(client) = &cluster.client
        {
            background.spawn(csi_drivers::keep(
                client.clone(),
                events.clone(),
                driver.clone(),
                self.desired.subscribe(),
                options.profile,
                readiness.clone(),
            ));
        }
        let (reconciler, desired) = (self.reconciler.clone(), self.desired.subscribe());
        background.spawn(follow_files(reconciler, desired));
    }

    /// Sets a new desired revision; returns whether it differs from the old one.
    pub(super) fn set_desired(&self, desired: Desired) -> bool {
        let changed = self.desired.send_if_modified(|before| {
            let is_other = *before != desired;
            before.clone_from(&desired);
            is_other
        });
        if changed {
            self.reconciler.set_desired(desired);
        }
        changed
    }

    /// Lets running calls end within `grace`; returns how many mutating calls had not ended.
    pub(super) async fn finish(&mut self, grace: Duration) -> usize {
        self.background.abort_all();
        self.reconciler.stop().await;
        self.driver.shutdown(grace).await
    }

    /// Closes the socket after all calls have been answered.
    pub(super) async fn close(&mut self) {
        self.closed.cancel();
        while self.server.join_next().await.is_some() {}
    }

    /// Must be the last step: without a registration kubelet unmounts nothing, and removes the driver from CSINode.
    pub(super) async fn unregister(&mut self) {
        if let Some(registration) = self.registration.take() {
            registration.end().await;
        }
    }
}

/// A node's host has no records. Controllers with leader election share their records.
fn migrates(options: &HostOptions) -> Migrates {
    match options.role {
        Role::Node => Migrates::AnotherProcess,
        Role::All | Role::Controller if options.controller.elects => Migrates::TheElected,
        Role::All | Role::Controller => Migrates::ThisProcess,
    }
}

/// Wakes the reconciler whenever a file that the document refers to changes.
async fn follow_files(reconciler: Arc<VersionReconciler>, mut desired: watch::Receiver<Desired>) {
    let mut states = FileStates::new();
    loop {
        let files = sources::files(&desired.borrow_and_update());
        let Ok(listed) = spawn_blocking(move || states_of(files, &states)).await else {
            // The runtime is shutting down.
            return;
        };
        states = listed;
        tokio::select! {
            files = changed(&mut states) => {
                tracing::debug!(changed = ?files, "files of a backend changed");
                reconciler.check_again();
            }
            more = desired.changed() => if more.is_err() {
                return;
            },
        }
    }
}

/// Sets the grants of the version that is activated.
fn set_grants(common: &Arc<Common>, driver: &DriverName) -> SetGrants {
    let (common, driver) = (Arc::downgrade(common), driver.clone());
    Arc::new(move |grants| {
        let (common, driver) = (common.clone(), driver.clone());
        Box::pin(async move {
            let Some(common) = common.upgrade() else {
                return Err("the host is shutting down".to_owned());
            };
            let granted = grant(&common, &driver, Some(grants)).await;
            granted.map_err(|error| error.to_string())
        })
    })
}

/// A mounter in another process uses its own copy of the document.
pub(super) async fn grant(
    common: &Common,
    driver: &DriverName,
    grants: Option<Grants>,
) -> io::Result<()> {
    let Some(local) = common.services.local.clone() else {
        return Ok(());
    };
    let (data_dir, driver) = (common.options.data_dir.clone(), driver.clone());
    let work = move || local_mounts::grant(&local, &data_dir, &driver, grants);
    spawn_blocking(work).await.map_err(io::Error::other)?
}

fn bind(path: &Path) -> Result<BoundSocket, SocketError> {
    if let Some(directory) = path.parent() {
        let made = make_directory(directory, SOCKET_DIRECTORY_MODE);
        made.map_err(|source| SocketError::System {
            operation: "make the directory",
            path: directory.to_owned(),
            source,
        })?;
    }
    BoundSocket::bind(path)
}
