//! `/metrics`: the host's metrics, in Prometheus' text format.
//!
//! Labels are bounded: drivers are those of the documents, methods and codes those of CSI and gRPC. docs/kubernetes.md has the same table.

use crate::readiness::{DriverReport, Readiness};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use wasmount_core::driver::Driver;
use wasmount_core::fault::FaultKind;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::status::RefusalKind;
use wasmount_csi::CallMetrics;
use wasmount_versions::{VersionEvent, VersionReconciler};

/// OpenMetrics 1.0, which Prometheus accepts since 2.5.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of one host.
pub(crate) struct Metrics {
    readiness: Arc<Readiness>,
    calls: CallMetrics,
    swaps: Family<Labels<1>, Counter>,
    rollbacks: Family<Labels<1>, Counter>,
    refusals: Family<Labels<2>, Counter>,
    drivers: Mutex<BTreeMap<DriverName, Shown>>,
}

/// The sources of one serving driver's metrics.
struct Shown {
    driver: Arc<Driver>,
    reconciler: Arc<VersionReconciler>,
}

/// The labels of one value, by name.
type Labels<const N: usize> = [(&'static str, String); N];

impl Metrics {
    /// The metrics of a host without drivers yet.
    pub(crate) fn new(readiness: Arc<Readiness>) -> Self {
        Self {
            readiness,
            calls: CallMetrics::default(),
            swaps: Family::default(),
            rollbacks: Family::default(),
            refusals: Family::default(),
            drivers: Mutex::default(),
        }
    }

    /// The metrics that the servers update.
    pub(crate) fn calls(&self) -> CallMetrics {
        self.calls.clone()
    }

    /// Adds the metrics of this driver's plugin. Counts are shown from the start: a rate needs a zero to start at.
    pub(crate) fn add(&self, driver: Arc<Driver>, reconciler: Arc<VersionReconciler>) {
        let name = driver.name().clone();
        drop(self.swaps.get_or_create(&of(&name)));
        drop(self.rollbacks.get_or_create(&of(&name)));
        for kind in RefusalKind::ALL {
            drop(self.refusals.get_or_create(&of_kind(&name, kind.as_str())));
        }
        lock(&self.drivers).insert(name, Shown { driver, reconciler });
    }

    /// Counts a change to the versions of a driver.
    pub(crate) fn count(&self, driver: &DriverName, event: &VersionEvent) {
        match event {
            VersionEvent::Swapped(_) => self.swaps.get_or_create(&of(driver)).inc(),
            VersionEvent::RolledBack { .. } => self.rollbacks.get_or_create(&of(driver)).inc(),
            VersionEvent::Refused(refused) => {
                let labels = of_kind(driver, refused.kind.as_str());
                self.refusals.get_or_create(&labels).inc()
            }
            VersionEvent::CannotRollBack { .. } | VersionEvent::StillDraining(_) => 0,
        };
    }

    /// Removes the metrics of a driver.
    pub(crate) fn remove(&self, driver: &DriverName) {
        lock(&self.drivers).remove(driver);
        self.swaps.remove(&of(driver));
        self.rollbacks.remove(&of(driver));
        for kind in RefusalKind::ALL {
            self.refusals.remove(&of_kind(driver, kind.as_str()));
        }
    }

    /// The text of all metrics now.
    pub(crate) fn text(&self) -> String {
        let mut registry = Registry::with_prefix("wasmount");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of the host", version);
        self.calls.register(&mut registry);
        self.register_drivers(&mut registry);
        self.register_faults(&mut registry);
        self.register_versions(&mut registry);
        self.register_network(&mut registry);
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &registry) {
            tracing::error!(%error, "metrics cannot be encoded");
        }
        text
    }

    fn register_drivers(&self, registry: &mut Registry) {
        let report = self.readiness.report();
        let mut gauge = |name, help, value: &dyn Fn(&DriverReport) -> Option<bool>| {
            let family = Family::<Labels<1>, Gauge>::default();
            for (driver, found) in &report.drivers {
                if let Some(value) = value(found) {
                    family.get_or_create(&of(driver)).set(value.into());
                }
            }
            registry.register(name, help, family);
        };
        let help = "1 if the driver is ready, as /readyz/<driver> says";
        gauge("driver_ready", help, &|driver| {
            Some(report.not_ready(driver).is_none())
        });
        let help = "1 if the driver has a plugin";
        gauge("plugin_loaded", help, &|driver| {
            Some(driver.no_plugin.is_none())
        });
        let help = "1 if the pools of the driver can be used on this node";
        gauge("storage_usable", help, &|driver| {
            Some(driver.storage.is_none())
        });
        let help = "1 if the driver is registered with kubelet; absent where the host does not register it";
        gauge("driver_registered", help, &|driver| {
            Some(driver.registration.as_ref()?.registered)
        });
        let help = "1 if CSINode and Node match the driver; absent where it is not checked";
        gauge("driver_listed", help, &|driver| {
            Some(driver.listing.as_ref()?.listed)
        });

        let mut counter = |name, help, value: &dyn Fn(&DriverReport) -> Option<u64>| {
            let family = Family::<Labels<1>, Counter>::default();
            for (driver, found) in &report.drivers {
                if let Some(value) = value(found) {
                    family.get_or_create(&of(driver)).inc_by(value);
                }
            }
            registry.register(name, help, family);
        };
        let help = "How often kubelet registered the driver";
        counter("registrations", help, &|driver| {
            Some(driver.registration.as_ref()?.registrations)
        });
        let help = "How often kubelet refused the driver";
        counter("registration_refusals", help, &|driver| {
            Some(driver.registration.as_ref()?.refusals)
        });
        let help = "How often the registration socket was bound again";
        counter("registration_rebinds", help, &|driver| {
            Some(driver.registration.as_ref()?.rebinds)
        });
        let help = "How often CSINode or Node ceased to match the driver";
        counter("listing_drifts", help, &|driver| {
            Some(driver.listing.as_ref()?.drifts)
        });

        let gaps = Family::<Labels<1>, Gauge<f64, AtomicU64>>::default();
        for (name, driver) in &report.drivers {
            let gap = driver.registration.as_ref().and_then(|it| it.gap);
            if let Some(gap) = gap {
                let length = gap.length.as_secs_f64();
                gaps.get_or_create(&of(name)).set(length);
            }
        }
        let help = "How long no host served the driver before this one took over";
        registry.register_with_unit("handover_gap", help, Unit::Seconds, gaps);
    }

    fn register_faults(&self, registry: &mut Registry) {
        let faults = Family::<Labels<2>, Counter>::default();
        for Shown { driver, .. } in lock(&self.drivers).values() {
            let counts = driver.fault_counts();
            for &kind in FaultKind::ALL {
                // Faults that never occurred are shown as well: a rate needs a zero to start at.
                let labels = of_kind(driver.name(), kind.as_str());
                let count = counts.get(&kind).copied().unwrap_or(0);
                faults.get_or_create(&labels).inc_by(count);
            }
        }
        let help = "Calls that failed by a fault of the driver's plugin";
        registry.register("plugin_faults", help, faults);
    }

    fn register_versions(&self, registry: &mut Registry) {
        let infos = Family::<Labels<3>, Gauge>::default();
        for (name, shown) in lock(&self.drivers).iter() {
            if let Some(version) = shown.reconciler.status().version {
                let labels = [
                    ("driver", name.to_string()),
                    ("version", version.plugin_version),
                    ("digest", version.digest),
                ];
                infos.get_or_create(&labels).set(1);
            }
        }
        let help = "The version that serves; always 1";
        registry.register("plugin_info", help, infos);
        let help = "How often another version was activated";
        registry.register("plugin_swaps", help, self.swaps.clone());
        let help = "How often a version was rolled back, by the host or by hand";
        registry.register("plugin_rollbacks", help, self.rollbacks.clone());
        let help = "Versions that were refused";
        registry.register("plugin_refusals", help, self.refusals.clone());
    }

    /// Labels are the names of grants, never hosts or URLs.
    fn register_network(&self, registry: &mut Registry) {
        let requests = Family::<Labels<3>, Counter>::default();
        let logins = Family::<Labels<3>, Counter>::default();
        let retries = Family::<Labels<2>, Counter>::default();
        let in_flight = Family::<Labels<2>, Gauge>::default();
        let seconds = Family::<Labels<2>, Counter<f64, AtomicU64>>::default();
        for (driver, shown) in lock(&self.drivers).iter() {
            for (grant, usage) in shown.reconciler.network_usage() {
                let of_grant = [("driver", driver.to_string()), ("grant", grant)];
                let counted = |family: &Family<Labels<3>, Counter>, outcome: &str, count| {
                    let [driver, grant] = of_grant.clone();
                    let labels = [driver, grant, ("outcome", outcome.to_owned())];
                    family.get_or_create(&labels).inc_by(count);
                };
                counted(&requests, "succeeded", usage.succeeded);
                counted(&requests, "rejected", usage.rejected);
                counted(&requests, "failed", usage.failed);
                counted(&requests, "unsent", usage.unsent);
                counted(&requests, "lost", usage.lost);
                counted(&logins, "succeeded", usage.logins);
                counted(&logins, "failed", usage.failed_logins);
                retries.get_or_create(&of_grant).inc_by(usage.retries);
                let waiting = i64::try_from(usage.in_flight).unwrap_or(i64::MAX);
                in_flight.get_or_create(&of_grant).set(waiting);
                seconds
                    .get_or_create(&of_grant)
                    .inc_by(usage.time.as_secs_f64());
            }
        }
        let help = "Requests of the driver's plugin to a network grant, by outcome";
        registry.register("network_requests", help, requests);
        let help = "Logins of the host for a network grant";
        registry.register("network_logins", help, logins);
        let help = "Requests that were sent again";
        registry.register("network_retries", help, retries);
        let help = "Requests that are not answered yet";
        registry.register("network_requests_in_flight", help, in_flight);
        let help = "Time that requests took, with their waiting, logins and retries";
        registry.register_with_unit("network_request", help, Unit::Seconds, seconds);
    }
}

fn of(name: &DriverName) -> Labels<1> {
    [("driver", name.to_string())]
}

fn of_kind(name: &DriverName, kind: &str) -> Labels<2> {
    [("driver", name.to_string()), ("kind", kind.to_owned())]
}

#[cfg(test)]
mod tests;
