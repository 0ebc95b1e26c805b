//! The registration of a host's drivers with kubelet: whether there is a kubelet, leftovers of an earlier host, and one task for each
//! driver.
//!
//! The registration protocol is in `wasmount_kubernetes`.

use super::kubernetes::{Cluster, RegistrationMode};
use super::{HostOptions, storage_watch};
use crate::config::Configured;
use crate::fault::Fault;
use crate::readiness::{Readiness, each};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wasmount_core::driver::Driver;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::{
    Beginning, PluginRegistration, Registrar, registration_socket, registry,
};
use wasmount_socket::{SocketError, remove_stale};

/// The directory in which the drivers of a host are registered, and since when.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// kubelet's directory; none: no driver is registered.
    registry: Option<PathBuf>,
    started: SystemTime,
}

/// The registration of one driver, in a task. Dropping it ends the task at once and removes the socket.
pub(super) struct Registration {
    /// Requests a new registration, and reports the state of this one.
    pub(super) registrar: Arc<Registrar>,
    task: JoinSet<()>,
    _report: JoinSet<()>,
    closed: CancellationToken,
}

/// The first step of a host: removes the sockets that killed hosts left. kubelet calls each leftover, and waits longer after each failure
/// (up to 2 min 2 s), also for the socket that replaces it. If registration is required, kubelet's directory must exist.
pub(super) fn prepare(options: &HostOptions, backends: &[Configured]) -> Result<Place, Fault> {
    let started = SystemTime::now();
    let registry = registry(&options.kubelet_dir);
    let beside = storage_watch::beside_kubelet(&options.kubelet_dir);
    let registry = match options.kubernetes.registration {
        RegistrationMode::Off => None,
        RegistrationMode::Auto => beside.then_some(registry),
        RegistrationMode::On if beside => Some(registry),
        RegistrationMode::On => {
            let reason = format!(
                "there is no directory {}, which kubelet makes when it first starts; --kubelet-dir says where kubelet's root is",
                registry.display()
            );
            return Err(Fault::flag("--registration", "on", reason));
        }
    };
    if let Some(registry) = &registry {
        for backend in backends {
            clear(&registration_socket(
                registry,
                &backend.document.driver_name,
            ));
        }
    }
    Ok(Place { registry, started })
}

fn clear(socket: &Path) {
    match remove_stale(socket) {
        Ok(true) => {
            tracing::info!(socket = %socket.display(), "removed the registration socket of a killed host");
        }
        Ok(false) => {}
        // Its host is about to end, in an upgrade: this host waits for the data directory.
        Err(SocketError::Live { path }) => {
            tracing::info!(socket = %path.display(), "another process has the driver registered");
        }
        Err(error) => tracing::warn!(%error, "a registration socket cannot be bound later"),
    }
}

impl Place {
    /// Removes the socket that a killed host left for a driver that is added while this host serves.
    pub(super) fn clear(&self, driver: &DriverName) {
        if let Some(registry) = &self.registry {
            clear(&registration_socket(registry, driver));
        }
    }

    /// Registers one driver, whose CSI socket answers, as soon as `clear` resolves; none: this host registers no driver. `succeeded`: when the
    /// previous host released the data directory.
    pub(super) fn begin(
        &self,
        driver: &Arc<Driver>,
        endpoint: PathBuf,
        succeeded: Option<SystemTime>,
        clear: impl Future<Output = ()> + Send + 'static,
        cluster: &Cluster,
        readiness: &Arc<Readiness>,
    ) -> Option<Registration> {
        let introduction = PluginRegistration {
            driver: driver.name().clone(),
            registry: self.registry.clone()?,
            endpoint,
        };
        let beginning = Beginning {
            started: self.started,
            succeeded,
        };
        let registrar = Registrar::new(introduction, cluster.node(), cluster.events.clone());
        let (mut tasks, mut reports) = (JoinSet::new(), JoinSet::new());
        let (name, status) = (driver.name().clone(), registrar.status());
        let readiness = readiness.clone();
        reports.spawn(each(status, move |now| {
            readiness.change(&name, |it| it.registration = Some(now));
        }));
        let closed = CancellationToken::new();
        let (task, driver, until) = (registrar.clone(), driver.clone(), closed.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = until.cancelled() => return,
                () = clear => {}
            }
            task.run(&driver, beginning, until).await;
        });
        Some(Registration {
            registrar,
            task: tasks,
            _report: reports,
            closed,
        })
    }
}

impl Registration {
    /// Removes the socket: kubelet then removes the driver from CSINode.
    pub(super) async fn end(mut self) {
        self.closed.cancel();
        while self.task.join_next().await.is_some() {}
    }
}
