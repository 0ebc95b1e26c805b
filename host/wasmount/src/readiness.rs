//! Who serves, who is ready, and why not.
//!
//! It decides nothing: a reason is kept in the words of whoever found it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::watch;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::{ListingStatus, RegistrationStatus, TroubleKind, Troubles};

/// What is said until something is known: no trouble, only not yet ready.
const STARTING: &str = "the host is starting";
pub(crate) const LOADING: &str = "its plugin is being loaded";
pub(crate) const AWAITING_MOUNTER: &str = "the mounter does not answer yet";

/// Shared by all of a host.
#[derive(Debug)]
pub(crate) struct Readiness(watch::Sender<Report>);

/// A moment's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Why no driver can be ready, such as a second host that has the data directory.
    pub(crate) host: Option<String>,
    /// That the records of all drivers are lost, and what to do; none: they are there.
    pub(crate) lost_records: Option<String>,
    /// The drivers.
    pub(crate) drivers: BTreeMap<DriverName, DriverReport>,
}

/// One driver of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DriverReport {
    /// Where it serves, once it does.
    pub(crate) socket: Option<PathBuf>,
    /// Why it has no plugin; none: it has.
    pub(crate) no_plugin: Option<String>,
    /// The host was started to serve it, and has not loaded a plugin for it since.
    pub(crate) never_loaded: bool,
    /// Why its storage cannot be used here; none: it can, or nobody has looked yet.
    pub(crate) storage: Option<String>,
    /// How it stands with kubelet; none: nobody registers it here.
    pub(crate) registration: Option<RegistrationStatus>,
    /// How it stands in CSINode; none: nobody looks.
    pub(crate) listing: Option<ListingStatus>,
    /// Why Kubernetes acts on a CSIDriver object that says other than the plugin needs; none: it does not, or nobody looks.
    pub(crate) contradicted: Option<String>,
}

impl Readiness {
    /// Nobody is ready yet.
    pub(crate) fn new(drivers: impl IntoIterator<Item = DriverName>) -> Self {
        let drivers = drivers
            .into_iter()
            .map(|name| {
                let starting = DriverReport {
                    never_loaded: true,
                    ..DriverReport::starting()
                };
                (name, starting)
            })
            .collect();
        Self(watch::Sender::new(Report {
            host: Some(STARTING.to_owned()),
            lost_records: None,
            drivers,
        }))
    }

    /// The state now.
    pub(crate) fn report(&self) -> Report {
        self.0.borrow().clone()
    }

    /// The state now and from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Report> {
        self.0.subscribe()
    }

    /// Returns once each plugin was loaded, or could not be the first time.
    pub(crate) async fn all_tried(&self) {
        let is_loading = |driver: &DriverReport| driver.no_plugin.as_deref() == Some(LOADING);
        let mut reports = self.watch();
        // The sender lives as long as this borrow of it.
        let _ = reports
            .wait_for(|report| !report.drivers.values().any(is_loading))
            .await;
    }

    /// Why no driver can be ready; none: nothing stands in the way.
    pub(crate) fn set_host(&self, reason: Option<String>) {
        self.0.send_modify(|report| report.host = reason);
    }

    /// The records of all drivers are lost, in words.
    pub(crate) fn set_lost_records(&self, reason: String) {
        self.0
            .send_modify(|report| report.lost_records = Some(reason));
    }

    /// A driver that comes while the host serves; one that is there already stays as it is. The host is ready without its plugin: no roll-out
    /// brought it, and one that goes on must not stop at it.
    pub(crate) fn add(&self, driver: &DriverName) {
        self.0.send_modify(|report| {
            let drivers = &mut report.drivers;
            drivers
                .entry(driver.clone())
                .or_insert_with(DriverReport::starting);
        });
    }

    /// A driver that is served no more.
    pub(crate) fn remove(&self, driver: &DriverName) {
        self.0.send_modify(|report| {
            report.drivers.remove(driver);
        });
    }

    /// A driver's socket accepts calls.
    pub(crate) fn set_socket(&self, driver: &DriverName, socket: PathBuf) {
        self.change(driver, |report| report.socket = Some(socket));
    }

    /// Why a driver has no plugin; none: it has.
    pub(crate) fn set_plugin(&self, driver: &DriverName, reason: Option<String>) {
        self.change(driver, |report| {
            report.never_loaded &= reason.is_some();
            report.no_plugin = reason;
        });
    }

    /// Why a driver's storage cannot be used here; none: it can.
    pub(crate) fn set_storage(&self, driver: &DriverName, reason: Option<String>) {
        self.change(driver, |report| report.storage = reason);
    }

    /// How a driver stands with kubelet.
    pub(crate) fn set_registration(&self, driver: &DriverName, status: RegistrationStatus) {
        self.change(driver, |report| report.registration = Some(status));
    }

    /// How a driver stands in CSINode.
    pub(crate) fn set_listing(&self, driver: &DriverName, status: ListingStatus) {
        self.change(driver, |report| report.listing = Some(status));
    }

    /// What Kubernetes is told of a driver contradicts it.
    pub(crate) fn set_contradicted(&self, driver: &DriverName, reason: Option<String>) {
        self.change(driver, |report| report.contradicted = reason);
    }

    /// What is known of a driver; a late word of one that was removed is nobody's.
    fn change(&self, driver: &DriverName, change: impl FnOnce(&mut DriverReport)) {
        self.0.send_modify(|report| {
            if let Some(report) = report.drivers.get_mut(driver) {
                change(report);
            }
        });
    }
}

impl DriverReport {
    /// Nothing is known yet.
    fn starting() -> Self {
        Self {
            no_plugin: Some(LOADING.to_owned()),
            ..Self::default()
        }
    }
}

impl Report {
    /// Why no driver can be ready; none: nothing stands in the way.
    pub(crate) fn of_host(&self) -> Option<String> {
        self.host.clone().or_else(|| self.lost_records.clone())
    }

    /// Why a driver's calls do not reach it from Kubernetes; none: they do. One whose plugin was never loaded serves nobody, and a roll-out
    /// must stop there. A plugin that is lost later, or a sick pool, is no reason: the pod of a host serves many drivers, and the tear-down
    /// of that one too.
    pub(crate) fn not_reached(&self, driver: &DriverReport) -> Option<String> {
        let not_serving = || {
            let missing = driver.socket.is_none();
            missing.then(|| "its socket is not there yet".to_owned())
        };
        let not_registered = || {
            let status = driver.registration.as_ref()?;
            let why = status.reason.as_deref();
            let why = why.unwrap_or("kubelet was not asked for it yet");
            (!status.registered).then(|| why.to_owned())
        };
        let not_listed = || {
            let status = driver.listing.as_ref()?;
            let why = status.reason.as_deref().unwrap_or("nobody looked yet");
            (!status.listed).then(|| format!("CSINode does not have it: {why}"))
        };
        let never_loaded = || driver.no_plugin.clone().filter(|_| driver.never_loaded);
        self.of_host()
            .or_else(not_serving)
            .or_else(never_loaded)
            .or_else(not_registered)
            .or_else(not_listed)
    }

    /// Why a driver cannot do all that it is asked for; none: it can.
    pub(crate) fn not_ready(&self, driver: &DriverReport) -> Option<String> {
        self.not_reached(driver)
            .or_else(|| driver.no_plugin.clone())
            .or_else(|| driver.storage.clone())
            .or_else(|| driver.contradicted.clone())
    }

    /// What an administrator of the node has to mend.
    pub(crate) fn troubles(&self) -> Troubles {
        let known = |words: &Option<String>| {
            let waits = [STARTING, LOADING, AWAITING_MOUNTER];
            words
                .clone()
                .filter(|words| !waits.contains(&words.as_str()))
        };
        let mut troubles = Troubles::new();
        if let Some(words) = known(&self.host) {
            troubles.insert((TroubleKind::CannotMount, None), words);
        }
        if let Some(words) = &self.lost_records {
            troubles.insert((TroubleKind::StorageNotUsable, None), words.clone());
        }
        for (name, driver) in &self.drivers {
            let found = [
                (TroubleKind::PluginNotLoaded, &driver.no_plugin),
                (TroubleKind::StorageNotUsable, &driver.storage),
            ];
            for (kind, words) in found {
                if let Some(words) = known(words) {
                    troubles.insert((kind, Some(name.clone())), words);
                }
            }
        }
        troubles
    }
}

#[cfg(test)]
mod tests;
