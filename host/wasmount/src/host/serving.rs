//! The drivers at work, from bound sockets to the last answer. Apart from opening the rooms because from here on clients are served, and
//! nothing may wait for a plugin.
//!
//! Every task is held in a set that ends it when dropped: an early return leaves neither socket nor task.

use super::admission::{self, Admission};
use super::controller::Leading;
use super::csi_node::CsiNodes;
use super::kubernetes::Cluster;
use super::registration::{self, Registrations};
use super::rooms::Rooms;
use super::{HostOptions, csi_drivers, events, mounter_watch, shared_roots, storage_watch};
use crate::config::Configured;
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use futures::future::join_all;
use std::fs::DirBuilder;
use std::future::pending;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wasmount_core::driver::{Driver, DriverConfig, PodInfo, Role};
use wasmount_csi::server::{self, ServeError};
use wasmount_kubernetes::csi_node::Renewal;
use wasmount_kubernetes::tell_plugin_faults;
use wasmount_socket::{BoundSocket, Connections, SocketError};

/// What kubelet gives a plugin's directory.
const SOCKET_DIRECTORY_MODE: u32 = 0o750;

/// How long giving back the leases may take at the end. 2 s: without an answer others wait until they run out, which is safe.
const LEASES: Duration = Duration::from_secs(2);

/// A serving host.
pub(super) struct Serving {
    drivers: Vec<Arc<Driver>>,
    servers: JoinSet<Result<(), ServeError>>,
    registrations: Registrations,
    background: JoinSet<()>,
    /// Where another host may work instead.
    leading: Option<Leading>,
    /// It does already.
    lost: bool,
    closed: CancellationToken,
}

impl Serving {
    /// Binds all sockets, claims what must be recovered, serves, at most `connections` to each, and lets each backend's
    /// admission and registration begin.
    pub(super) async fn start(
        options: &HostOptions,
        rooms: Rooms,
        backends: Vec<Configured>,
        readiness: &Arc<Readiness>,
        metrics: &Metrics,
        connections: usize,
        place: registration::Place,
    ) -> Result<Self, Fault> {
        let mut bound = Vec::new();
        for backend in backends {
            let path = options.socket(&backend.document.driver_name);
            let socket = bind(&path).map_err(Fault::room("a CSI socket is not usable"))?;
            bound.push((backend, socket, path));
        }
        let cluster = Cluster::reach(&options.kubernetes).await;
        let mut serving = Self {
            drivers: Vec::new(),
            servers: JoinSet::new(),
            registrations: Registrations::new(place, rooms.succeeded),
            background: JoinSet::new(),
            leading: None,
            lost: false,
            closed: CancellationToken::new(),
        };
        let names = bound.iter().map(|(it, ..)| it.document.driver_name.clone());
        let served = names.collect();
        let csi_nodes = CsiNodes::begin(options, &cluster, served, &mut serving.background);
        for (backend, socket, path) in bound {
            let document = &backend.document;
            let name = document.driver_name.clone();
            let config = DriverConfig {
                name: name.clone(),
                role: options.role,
                profile: options.profile,
                node_id: options.node_id.clone(),
                time_budget: document.limits.time,
                hidden: document.hidden.clone(),
                pod_info: PodInfo::of(&document.csi_driver),
            };
            let driver = Driver::new(config, rooms.mounter.clone(), rooms.state.clone());
            if options.controller.elects {
                driver.stand_by();
            }
            // With a mounter of its own process, as soon as that answers.
            if rooms.remote.is_none() {
                mounter_watch::recover(&driver).await;
            }
            let closed = serving.closed.clone();
            let server =
                server::serve(socket, driver.clone(), connections, metrics.calls(), closed);
            serving.servers.spawn(server);
            readiness.set_socket(&name, path.clone());
            serving.drivers.push(driver.clone());
            let clear = csi_nodes.clear_to_register(&driver, &cluster);
            let registrar = serving
                .registrations
                .begin(&driver, path, clear, &cluster, readiness);
            if options.role != Role::Controller {
                let document = &document.csi_driver;
                let renewal = registrar.map(|registrar| Renewal {
                    registration: registrar.status(),
                    renew: Arc::new(move || registrar.renew()),
                });
                let background = &mut serving.background;
                csi_nodes.look_after(&driver, document, &cluster, renewal, readiness, background);
            }
            metrics.add(driver.clone());
            let told = tell_plugin_faults(cluster.events().clone(), driver.faults());
            serving.background.spawn(told);
            let watch = storage_watch::watch(driver.clone(), readiness.clone());
            serving.background.spawn(watch);
            if options.kubernetes.applies_csi_driver
                && let Some(client) = cluster.client()
            {
                serving.background.spawn(csi_drivers::keep(
                    client.clone(),
                    cluster.events().clone(),
                    driver.clone(),
                    document.clone(),
                    options.profile,
                    readiness.clone(),
                ));
            }
            let admission = Admission {
                backend,
                driver,
                rooms: rooms.clone(),
                node: options.node_id.clone(),
                readiness: readiness.clone(),
            };
            serving.background.spawn(admission::run(admission));
        }
        if let Some(shared) = rooms.shared.as_ref().filter(|_| options.controller.elects) {
            let drivers = serving.drivers.clone();
            let leading = Leading::start(shared, options, drivers, readiness.clone())?;
            serving.leading = Some(leading);
        }
        serving.watch_mounts(options, &rooms, readiness);
        if options.role != Role::Controller {
            let node = options.kubernetes.node_name.clone();
            let told = events::tell_troubles(cluster.events().clone(), node, readiness.clone());
            serving.background.spawn(told);
        }
        Ok(serving)
    }

    /// Keeps the host unready while nobody can mount, or kubelet would not see it.
    fn watch_mounts(&mut self, options: &HostOptions, rooms: &Rooms, readiness: &Arc<Readiness>) {
        let for_kubelet =
            options.role != Role::Controller && shared_roots::beside_kubelet(&options.kubelet_dir);
        let readiness = readiness.clone();
        match &rooms.remote {
            Some(remote) => {
                let (remote, drivers) = (remote.clone(), self.drivers.clone());
                let watch = mounter_watch::watch(remote, drivers, for_kubelet, readiness);
                self.background.spawn(watch);
            }
            None if for_kubelet => {
                let watch = shared_roots::watch(rooms.mounter.clone(), readiness);
                self.background.spawn(watch);
            }
            None => readiness.set_host(None),
        }
    }

    /// Returns when a socket stops serving by itself, which none should, or when this host may work no more.
    pub(super) async fn broken(&mut self) -> Fault {
        let what = "a CSI socket stopped serving";
        let lost = async {
            match &mut self.leading {
                Some(leading) => leading.lost().await,
                None => pending().await,
            }
        };
        let stopped = tokio::select! {
            stopped = self.servers.join_next() => stopped,
            fault = lost => {
                self.leading = None;
                self.lost = true;
                return fault;
            }
        };
        match stopped {
            Some(Ok(Err(error))) => Fault::room(what)(error),
            Some(Err(panicked)) => Fault::room(what)(panicked),
            Some(Ok(Ok(()))) | None => Fault::room(what)("nobody asked it to"),
        }
    }

    /// Lets running calls end within `grace`, then closes the sockets. Where another host may work already, it waits for none.
    pub(super) async fn stop(&mut self, grace: Duration) {
        let grace = if self.lost { Duration::ZERO } else { grace };
        self.background.abort_all();
        let drained = self.drivers.iter().map(|driver| driver.shutdown(grace));
        let unfinished: usize = join_all(drained).await.into_iter().sum();
        self.closed.cancel();
        while self.servers.join_next().await.is_some() {}
        if let Some(leading) = self.leading.take() {
            leading.release(LEASES).await;
        }
        // Last: without a registration kubelet unmounts nothing, and takes the driver out of CSINode.
        self.registrations.end().await;
        if unfinished == 0 {
            tracing::info!("stopped");
        } else {
            tracing::warn!(
                unfinished,
                "stopped; the next start recovers what was not finished"
            );
        }
    }
}

fn bind(path: &Path) -> Result<BoundSocket, SocketError> {
    if let Some(directory) = path.parent() {
        match DirBuilder::new()
            .mode(SOCKET_DIRECTORY_MODE)
            .create(directory)
        {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(SocketError::System {
                    operation: "make the directory",
                    path: directory.to_owned(),
                    source,
                });
            }
            _ => {}
        }
    }
    BoundSocket::bind(path, Connections::Stream)
}
