//! Which drivers are served, which are ready, and why others are not.
//!
//! It decides nothing: it keeps each reason as the module that found it wrote it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::watch;
use wasmount_core::driver::VolumesInUse;
use wasmount_core::names::DriverName;
use wasmount_core::pool::PoolUsage;
use wasmount_kubernetes::{ListingStatus, RegistrationStatus, TroubleKind, Troubles};

/// The reason until more is known: not a failure, only not yet ready.
const STARTING: &str = "the host is starting";
pub(crate) const UNREAD: &str = "the API server was not read yet";
pub(crate) const LOADING: &str = "its plugin is being loaded";
pub(crate) const AWAITING_MOUNTER: &str = "the mounter does not answer yet";

/// The readiness that all parts of a host share.
#[derive(Debug)]
pub(crate) struct Readiness(watch::Sender<Report>);

/// The state at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Why no driver can be ready, such as another host that holds the data directory.
    pub(crate) host: Option<String>,
    /// That the records of all drivers are lost, and what to do; none: they are not.
    pub(crate) lost_records: Option<String>,
    /// Why the StorageBackend objects say of no driver yet, or of none that can be served; none: they do, or the host reads no objects.
    pub(crate) objects: Option<String>,
    /// One of the drivers had a plugin since the host was started.
    pub(crate) has_served: bool,
    /// The drivers.
    pub(crate) drivers: BTreeMap<DriverName, DriverReport>,
}

/// The state of one driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DriverReport {
    /// Its CSI socket, once it serves.
    pub(crate) socket: Option<PathBuf>,
    /// Why it has no plugin; none: it has one.
    pub(crate) no_plugin: Option<String>,
    /// The host has not loaded a plugin for it since it was started.
    pub(crate) never_loaded: bool,
    /// The host was started without it.
    pub(crate) was_added: bool,
    /// Why its storage cannot be used here; none: it can, or it was not checked yet.
    pub(crate) storage: Option<String>,
    /// The space of the pools that answer here, at the last check.
    pub(crate) pools: BTreeMap<String, PoolUsage>,
    /// The volumes in use here, at the last check; none: not known.
    pub(crate) volumes: Option<VolumesInUse>,
    /// The status of its registration with kubelet; none: this host does not register it.
    pub(crate) registration: Option<RegistrationStatus>,
    /// Its status in CSINode; none: CSINode is not watched.
    pub(crate) listing: Option<ListingStatus>,
    /// Why Kubernetes acts on a CSIDriver object that contradicts the plugin; none: it does not, or the object is not watched.
    pub(crate) contradicted: Option<String>,
}

impl Readiness {
    /// Creates a report in which no driver is ready yet.
    pub(crate) fn new(drivers: impl IntoIterator<Item = DriverName>) -> Self {
        let drivers = drivers
            .into_iter()
            .map(|name| (name, DriverReport::starting(false)))
            .collect();
        Self(watch::Sender::new(Report {
            host: Some(STARTING.to_owned()),
            drivers,
            ..Report::default()
        }))
    }

    /// The state now.
    pub(crate) fn report(&self) -> Report {
        self.0.borrow().clone()
    }

    /// A receiver of the state now and of later changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Report> {
        self.0.subscribe()
    }

    /// Returns once each plugin was loaded, or its first attempt to load has failed.
    pub(crate) async fn all_tried(&self) {
        let is_loading = |driver: &DriverReport| driver.no_plugin.as_deref() == Some(LOADING);
        let mut reports = self.watch();
        // The sender lives as long as this borrow of it.
        let _ = reports
            .wait_for(|report| !report.drivers.values().any(is_loading))
            .await;
    }

    /// Sets why no driver can be ready; none: nothing prevents it.
    pub(crate) fn set_host(&self, reason: Option<String>) {
        self.0.send_modify(|report| report.host = reason);
    }

    /// Sets that the records of all drivers are lost, with the message.
    pub(crate) fn set_lost_records(&self, reason: String) {
        self.0
            .send_modify(|report| report.lost_records = Some(reason));
    }

    /// Sets why the StorageBackend objects give the host no driver; none: nothing prevents it.
    pub(crate) fn set_objects(&self, reason: Option<String>) {
        self.0.send_if_modified(|report| {
            let changes = report.objects != reason;
            report.objects = reason;
            changes
        });
    }

    /// Adds a driver while the host serves; an existing one stays as it is. Once the host has served any driver, it is ready without this one's plugin:
    /// the driver was not added by a roll-out, and a roll-out in progress must not stop at it.
    pub(crate) fn add(&self, driver: &DriverName) {
        self.0.send_modify(|report| {
            let drivers = &mut report.drivers;
            drivers
                .entry(driver.clone())
                .or_insert_with(|| DriverReport::starting(true));
        });
    }

    /// Removes a driver that is not served any more.
    pub(crate) fn remove(&self, driver: &DriverName) {
        self.0.send_modify(|report| {
            report.drivers.remove(driver);
        });
    }

    /// Sets why a driver has no plugin; none: it has one.
    pub(crate) fn set_plugin(&self, driver: &DriverName, reason: Option<String>) {
        self.0.send_modify(|report| {
            if let Some(driver) = report.drivers.get_mut(driver) {
                report.has_served |= reason.is_none();
                driver.never_loaded &= reason.is_some();
                driver.no_plugin = reason;
            }
        });
    }

    /// Changes the state of a driver; a late change of a removed driver is ignored.
    pub(crate) fn change(&self, driver: &DriverName, change: impl FnOnce(&mut DriverReport)) {
        self.0.send_modify(|report| {
            if let Some(report) = report.drivers.get_mut(driver) {
                change(report);
            }
        });
    }
}

impl DriverReport {
    /// Nothing is known yet.
    fn starting(was_added: bool) -> Self {
        Self {
            never_loaded: true,
            was_added,
            no_plugin: Some(LOADING.to_owned()),
            ..Self::default()
        }
    }
}

impl Report {
    /// Why no driver can be ready; none: nothing prevents it.
    pub(crate) fn of_host(&self) -> Option<String> {
        self.host.clone().or_else(|| self.lost_records.clone())
    }

    /// Why the host has no driver to be ready with, although it reads objects; none: it has, or had one. A roll-out must stop there, too.
    pub(crate) fn no_driver(&self) -> Option<String> {
        self.objects.clone().filter(|_| !self.has_served)
    }

    /// Why a driver's calls do not reach it from Kubernetes; none: they do. A driver with a plugin that was never loaded serves no client, and a
    /// roll-out must stop there. A plugin that is lost later, or a failing pool, is no reason: the pod of a host serves many drivers, and the
    /// teardown of that driver too.
    pub(crate) fn not_reached(&self, driver: &DriverReport) -> Option<String> {
        let not_serving = || {
            let missing = driver.socket.is_none();
            missing.then(|| "its socket is not there yet".to_owned())
        };
        let not_registered = || {
            let status = driver.registration.as_ref()?;
            let why = status.reason.as_deref();
            let why = why.unwrap_or("it was not announced to kubelet yet");
            (!status.registered).then(|| why.to_owned())
        };
        let not_listed = || {
            let status = driver.listing.as_ref()?;
            let why = status.reason.as_deref().unwrap_or("it was not checked yet");
            (!status.listed).then(|| format!("CSINode does not have it: {why}"))
        };
        let counts = driver.never_loaded && !(driver.was_added && self.has_served);
        let never_loaded = || driver.no_plugin.clone().filter(|_| counts);
        self.of_host()
            .or_else(not_serving)
            .or_else(never_loaded)
            .or_else(not_registered)
            .or_else(not_listed)
    }

    /// Why a driver cannot do everything that is requested of it; none: it can.
    pub(crate) fn not_ready(&self, driver: &DriverReport) -> Option<String> {
        self.not_reached(driver)
            .or_else(|| driver.no_plugin.clone())
            .or_else(|| driver.storage.clone())
            .or_else(|| driver.contradicted.clone())
    }

    /// The problems that an administrator of the node must correct.
    pub(crate) fn troubles(&self) -> Troubles {
        let known = |reason: &Option<String>| {
            let waits = [STARTING, LOADING, AWAITING_MOUNTER];
            reason
                .clone()
                .filter(|reason| !waits.contains(&reason.as_str()))
        };
        let mut troubles = Troubles::new();
        if let Some(reason) = known(&self.host) {
            troubles.insert((TroubleKind::CannotMount, None), reason);
        }
        if let Some(reason) = &self.lost_records {
            troubles.insert((TroubleKind::StorageNotUsable, None), reason.clone());
        }
        for (name, driver) in &self.drivers {
            let found = [
                (TroubleKind::PluginNotLoaded, &driver.no_plugin),
                (TroubleKind::StorageNotUsable, &driver.storage),
            ];
            for (kind, reason) in found {
                if let Some(reason) = known(reason) {
                    troubles.insert((kind, Some(name.clone())), reason);
                }
            }
        }
        troubles
    }
}

/// Calls `set` with a value now and after each change, as long as its sender lives.
pub(crate) async fn each<T: Clone>(mut values: watch::Receiver<T>, set: impl Fn(T)) {
    loop {
        let now = values.borrow_and_update().clone();
        set(now);
        if values.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
