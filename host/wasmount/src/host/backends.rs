//! The backends of a serving host: adding, changing and removing them.
//!
//! One change at a time; calls of clients never wait for a change.

mod refusal;

pub(crate) use refusal::{ApplyError, RemoveError};

use super::backend::{Backend, grant};
use super::common::Common;
use crate::fault::Fault;
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Mutex as Turn, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use wasmount_core::document::StorageBackend;
use wasmount_core::driver::{Driver, Leaving, Role};
use wasmount_core::mounter::{Mounter as _, VolumeInUse};
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::text::chain;
use wasmount_versions::{Desired, DesiredFrom, VersionReconciler};

/// How long running calls may take before a driver is removed. 10 s: as long as kubelet and the sidecars wait for most of them.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// How long a mounter may take to report the volumes in use. 2 s: a status must not wait for a mounter that hangs.
const MOUNTER: Duration = Duration::from_secs(2);

/// All backends of the host.
pub(crate) struct Backends {
    common: Arc<Common>,
    /// Locked while a backend is added, changed or removed.
    running: Turn<BTreeMap<DriverName, Backend>>,
    seen: Mutex<BTreeMap<DriverName, Seen>>,
    /// Backends that are removed as soon as none of their volumes is in use.
    leaving: Mutex<BTreeMap<DriverName, Leaving>>,
    /// Documents in files, of drivers that were removed: they return when their document is another one.
    removed: Mutex<BTreeMap<PathBuf, StorageBackend>>,
    changes: watch::Sender<()>,
    /// Tasks that outlive their backend.
    tasks: TaskTracker,
}

/// A view of a running backend for other modules.
#[derive(Clone)]
pub(crate) struct Seen {
    /// The driver.
    pub(crate) driver: Arc<Driver>,
    /// Its versions.
    pub(crate) reconciler: Arc<VersionReconciler>,
    /// The desired revision of its document.
    pub(crate) desired: watch::Receiver<Desired>,
    /// Why its document is not followed.
    pub(crate) trouble: Option<String>,
}

/// How a backend is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Only if no volume is in use; otherwise nothing changes.
    IfUnused,
    /// When no volume is in use any more: until then, or until it stays ([`Backends::stay`]), it takes no new work. The caller retries.
    WhenUnused,
    /// Even if volumes are in use.
    Forced,
}

impl Backends {
    /// Creates the set without any backend.
    pub(super) fn new(common: Common) -> Arc<Self> {
        Arc::new(Self {
            common: Arc::new(common),
            running: Turn::default(),
            seen: Mutex::default(),
            leaving: Mutex::default(),
            removed: Mutex::default(),
            changes: watch::Sender::default(),
            tasks: TaskTracker::new(),
        })
    }

    pub(super) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Serves a document from now on. A driver that is already served moves to another version in the background.
    pub(crate) async fn apply(&self, desired: Desired) -> Result<(), ApplyError> {
        let mut running = self.running.lock().await;
        let name = desired.document.driver_name.clone();
        if let Some(seen) = self.seen(&name) {
            let from = seen.desired.borrow().from.clone();
            if from != desired.from {
                let by = location(&from);
                return Err(ApplyError::Taken { driver: name, by });
            }
            self.set_trouble(&name, None);
            if let Some(backend) = running.get(&name)
                && backend.set_desired(desired)
            {
                tracing::info!(driver = %name, "document changed");
                self.changed();
            }
            return Ok(());
        }
        let same = |seen: &Seen| seen.desired.borrow().from == desired.from;
        if let Some((before, _)) = self.all().into_iter().find(|(_, seen)| same(seen)) {
            return Err(ApplyError::Fault(Fault::Failed(format!(
                "driverName was {before} and is {name} now: a backend keeps its name, for its volumes are known by it; restore it, or write another document for the new name"
            ))));
        }
        if let Some(file) = file_of(&desired.from) {
            let removed = lock(&self.removed).get(file).cloned();
            if removed.as_ref() == Some(&desired.document) {
                tracing::info!(driver = %name, file = %file.display(), "the document of a removed driver was written without a change: the driver stays removed");
                return Ok(());
            }
            self.forget_removed(file);
        }
        let drivers = self.all().len() + 1;
        let backend = Backend::start(&self.common, desired, drivers).await;
        let backend = backend.inspect_err(|_| self.common.readiness.remove(&name))?;
        let candidate = (backend.driver.clone(), backend.reconciler.clone());
        self.enter(&mut running, name, backend);
        if let Some(elections) = &self.common.elections {
            elections.start_election(&[candidate]);
        }
        Ok(())
    }

    /// Serves all backends that the host starts with; `coming` are those that follow at once. They share one leader election: one host works for
    /// all of them.
    pub(super) async fn begin(
        &self,
        all: Vec<Desired>,
        coming: BTreeSet<DriverName>,
    ) -> Result<(), Fault> {
        let mut running = self.running.lock().await;
        let count = all.len();
        let mut drivers = Vec::new();
        for desired in all {
            let name = desired.document.driver_name.clone();
            let backend = Backend::start(&self.common, desired, count).await?;
            drivers.push((backend.driver.clone(), backend.reconciler.clone()));
            self.enter(&mut running, name, backend);
        }
        let mut served = coming;
        served.extend(lock(&self.seen).keys().cloned());
        self.common.csi_nodes.retire_all_but(served, &self.tasks);
        if let Some(elections) = &self.common.elections
            && !drivers.is_empty()
        {
            elections.start_election(&drivers);
        }
        Ok(())
    }

    fn enter(
        &self,
        running: &mut BTreeMap<DriverName, Backend>,
        name: DriverName,
        backend: Backend,
    ) {
        let seen = Seen {
            driver: backend.driver.clone(),
            reconciler: backend.reconciler.clone(),
            desired: backend.desired.subscribe(),
            trouble: None,
        };
        let mut status = backend.reconciler.watch();
        lock(&self.seen).insert(name.clone(), seen);
        running.insert(name, backend);
        let changes = self.changes.clone();
        self.tasks.spawn(async move {
            while status.changed().await.is_ok() {
                changes.send_replace(());
            }
        });
        self.changed();
    }

    /// Stops serving a driver. Records and volumes stay where they are.
    pub(crate) async fn remove(
        &self,
        name: &DriverName,
        removal: Removal,
    ) -> Result<(), RemoveError> {
        let unknown = || RemoveError::Unknown {
            driver: name.clone(),
        };
        let driver = self.seen(name).ok_or_else(unknown)?.driver;
        let leaving = driver.leave();
        // A call that is running may still stage a volume.
        let _ = timeout(LAST_CALLS, driver.idle()).await;
        let mut running = self.running.lock().await;
        let is_it = |backend: &Backend| Arc::ptr_eq(&backend.driver, &driver);
        if !running.get(name).is_some_and(is_it) {
            return Err(unknown());
        }
        if removal != Removal::Forced
            && let Err(refused) = self.unused(name).await
        {
            if removal == Removal::WhenUnused {
                lock(&self.leaving).insert(name.clone(), leaving);
            }
            return Err(refused);
        }
        let mut backend = running.remove(name).ok_or_else(unknown)?;
        backend.finish(self.common.options.grace).await;
        backend.close().await;
        if let Some(elections) = &self.common.elections {
            elections.withdraw(name).await;
        }
        backend.unregister().await;
        self.forget(&backend).await;
        lock(&self.seen).remove(name);
        self.stay(name);
        self.common.readiness.remove(name);
        self.common.metrics.remove(name);
        if let Err(error) = grant(&self.common, name, None).await {
            tracing::warn!(driver = %name, error = chain(&error), "grants of a removed driver remain");
        }
        let served = lock(&self.seen).keys().cloned().collect();
        self.common.csi_nodes.retire_all_but(served, &self.tasks);
        tracing::info!(driver = %name, "driver removed");
        self.changed();
        Ok(())
    }

    /// Cancels the removal of a driver that waits until it is unused: it takes new work again, unless it is drained.
    pub(crate) fn stay(&self, name: &DriverName) {
        lock(&self.leaving).remove(name);
    }

    /// The document of a removed driver has changed: whatever it says next is served.
    pub(super) fn forget_removed(&self, file: &Path) {
        lock(&self.removed).remove(file);
    }

    /// Deletes the versions of a removed object. A file may be created again, so the administrator's decisions about its versions are kept.
    async fn forget(&self, backend: &Backend) {
        let driver = backend.driver.name();
        let Desired { document, from, .. } = backend.desired.borrow().clone();
        if let Some(file) = file_of(&from) {
            lock(&self.removed).insert(file.clone(), document);
            let engine = &self.common.services.engine;
            engine.retain_compiled(driver, &[]).await;
        } else if let Err(error) = backend.reconciler.forget().await {
            tracing::warn!(%driver, error = chain(&error), "versions of a removed driver could not be deleted");
        }
    }

    async fn unused(&self, name: &DriverName) -> Result<(), RemoveError> {
        let driver = name.clone();
        match self.volumes_in_use(name).await {
            Ok(volumes) if volumes.is_empty() => Ok(()),
            Ok(volumes) => Err(RemoveError::StillStaged { driver, volumes }),
            // A controller's mounter may be absent: a controller stages nothing.
            Err(_) if self.common.options.role == Role::Controller => Ok(()),
            Err(reason) => Err(RemoveError::Unknowable { driver, reason }),
        }
    }

    /// A backend that is served.
    pub(crate) fn seen(&self, name: &DriverName) -> Option<Seen> {
        lock(&self.seen).get(name).cloned()
    }

    /// All backends that are served.
    pub(crate) fn all(&self) -> BTreeMap<DriverName, Seen> {
        lock(&self.seen).clone()
    }

    /// The volumes of a driver that are staged or published on this node; or why they are unknown.
    pub(crate) async fn volumes_in_use(
        &self,
        driver: &DriverName,
    ) -> Result<Vec<VolumeInUse>, String> {
        let mounter = &self.common.services.mounter;
        match timeout(MOUNTER, mounter.volumes_in_use(driver.clone())).await {
            Ok(volumes) => volumes.map_err(|error| error.to_string()),
            Err(_) => Err(format!(
                "the mounter has not answered for {} s",
                MOUNTER.as_secs()
            )),
        }
    }

    /// Changes whenever a backend, or the status of one, changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Sets why the document of a driver is not followed; none: it is followed.
    pub(crate) fn set_trouble(&self, name: &DriverName, trouble: Option<String>) {
        if let Some(seen) = lock(&self.seen).get_mut(name) {
            seen.trouble = trouble;
        }
    }

    /// Stops all backends: lets running calls end, closes the sockets, releases the leases, removes the registrations.
    pub(super) async fn stop(&self, grace: Duration, leases: Duration) -> usize {
        let mut running = self.running.lock().await;
        let mut backends: Vec<Backend> = std::mem::take(&mut *running).into_values().collect();
        let unfinished: usize = join_all(backends.iter_mut().map(|it| it.finish(grace)))
            .await
            .into_iter()
            .sum();
        join_all(backends.iter_mut().map(Backend::close)).await;
        if let Some(elections) = &self.common.elections {
            elections.release(leases).await;
        }
        join_all(backends.iter_mut().map(Backend::unregister)).await;
        unfinished
    }

    fn changed(&self) {
        self.changes.send_replace(());
    }
}

/// Describes the location of a document for people.
pub(super) fn location(from: &DesiredFrom) -> String {
    match from {
        DesiredFrom::File(path) => path.display().to_string(),
        DesiredFrom::Object(name) => format!("StorageBackend {name}"),
    }
}

/// The file of a document.
pub(super) fn file_of(from: &DesiredFrom) -> Option<&PathBuf> {
    match from {
        DesiredFrom::File(path) => Some(path),
        DesiredFrom::Object(_) => None,
    }
}
