//! Who serves, who is ready, and why not. Apart because start-up and admission write it and the health checks read it.
//!
//! It decides nothing: a reason is kept in the words of whoever found it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::watch;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::{ListingStatus, RegistrationStatus};

/// Shared by all of a host.
#[derive(Debug)]
pub(crate) struct Readiness(watch::Sender<Report>);

/// A moment's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Why no driver can be ready, such as a second host that has the data directory.
    pub(crate) host: Option<String>,
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
    /// How it stands with kubelet; none: nobody registers it here.
    pub(crate) registration: Option<RegistrationStatus>,
    /// How it stands in CSINode; none: nobody looks.
    pub(crate) listing: Option<ListingStatus>,
}

impl Readiness {
    /// Nobody is ready yet.
    pub(crate) fn new(drivers: impl IntoIterator<Item = DriverName>) -> Self {
        let starting = DriverReport {
            socket: None,
            no_plugin: Some("its plugin is being loaded".to_owned()),
            ..DriverReport::default()
        };
        let drivers = drivers
            .into_iter()
            .map(|name| (name, starting.clone()))
            .collect();
        Self(watch::Sender::new(Report {
            host: Some("the host is starting".to_owned()),
            drivers,
        }))
    }

    /// The state now.
    pub(crate) fn report(&self) -> Report {
        self.0.borrow().clone()
    }

    /// Why no driver can be ready; none: nothing stands in the way.
    pub(crate) fn set_host(&self, reason: Option<String>) {
        self.0.send_modify(|report| report.host = reason);
    }

    /// A driver's socket accepts calls.
    pub(crate) fn set_socket(&self, driver: &DriverName, socket: PathBuf) {
        self.change(driver, |report| report.socket = Some(socket));
    }

    /// Why a driver has no plugin; none: it has.
    pub(crate) fn set_plugin(&self, driver: &DriverName, reason: Option<String>) {
        self.change(driver, |report| report.no_plugin = reason);
    }

    /// How a driver stands with kubelet.
    pub(crate) fn set_registration(&self, driver: &DriverName, status: RegistrationStatus) {
        self.change(driver, |report| report.registration = Some(status));
    }

    /// How a driver stands in CSINode.
    pub(crate) fn set_listing(&self, driver: &DriverName, status: ListingStatus) {
        self.change(driver, |report| report.listing = Some(status));
    }

    fn change(&self, driver: &DriverName, change: impl FnOnce(&mut DriverReport)) {
        self.0
            .send_modify(|report| change(report.drivers.entry(driver.clone()).or_default()));
    }
}

impl Report {
    /// Every driver with the reason why it is not ready; none: it is.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&DriverName, Option<&str>)> {
        self.drivers.iter().map(|(name, driver)| {
            let not_serving = driver
                .socket
                .is_none()
                .then_some("its socket is not there yet");
            let fault = self.host.as_deref().or(not_serving);
            let fault = fault.or(driver.no_plugin.as_deref());
            (name, fault.or(driver.not_registered()))
        })
    }
}

impl DriverReport {
    /// Why kubelet does not know it; none: it does, or nobody registers it here.
    fn not_registered(&self) -> Option<&str> {
        let registration = self.registration.as_ref()?;
        match registration.registered {
            true => None,
            false => registration.reason.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(readiness: &Readiness) -> Vec<(String, Option<String>)> {
        readiness
            .report()
            .faults()
            .map(|(name, fault)| (name.to_string(), fault.map(str::to_owned)))
            .collect()
    }

    #[test]
    fn a_driver_is_ready_when_host_socket_and_plugin_are() {
        let name = DriverName::parse("a.b").unwrap();
        let readiness = Readiness::new([name.clone()]);
        let fault = |readiness: &Readiness| faults(readiness)[0].1.clone();
        assert_eq!(fault(&readiness).as_deref(), Some("the host is starting"));
        readiness.set_host(None);
        assert_eq!(
            fault(&readiness).as_deref(),
            Some("its socket is not there yet")
        );
        readiness.set_socket(&name, PathBuf::from("/s/csi.sock"));
        assert_eq!(
            fault(&readiness).as_deref(),
            Some("its plugin is being loaded")
        );
        readiness.set_plugin(&name, None);
        assert_eq!(fault(&readiness), None);
    }

    #[test]
    fn a_driver_beside_a_kubelet_is_ready_when_it_is_registered() {
        let name = DriverName::parse("a.b").unwrap();
        let readiness = Readiness::new([name.clone()]);
        readiness.set_host(None);
        readiness.set_socket(&name, PathBuf::from("/s/csi.sock"));
        readiness.set_plugin(&name, None);
        let mut status = RegistrationStatus {
            reason: Some("kubelet refused it: no".to_owned()),
            ..RegistrationStatus::default()
        };
        readiness.set_registration(&name, status.clone());
        let fault = faults(&readiness)[0].1.clone();
        assert_eq!(fault.as_deref(), Some("kubelet refused it: no"));
        status.registered = true;
        readiness.set_registration(&name, status);
        assert_eq!(faults(&readiness)[0].1, None);
    }

    #[test]
    fn one_driver_without_plugin_leaves_the_other_ready() {
        let [bad, good] = ["bad", "good"].map(|name| DriverName::parse(name).unwrap());
        let readiness = Readiness::new([bad.clone(), good.clone()]);
        readiness.set_host(None);
        for name in [&bad, &good] {
            readiness.set_socket(name, PathBuf::from("/s"));
        }
        readiness.set_plugin(&bad, Some("no such file".to_owned()));
        readiness.set_plugin(&good, None);
        assert_eq!(
            faults(&readiness),
            [
                ("bad".to_owned(), Some("no such file".to_owned())),
                ("good".to_owned(), None)
            ]
        );
    }
}
