//! `/metrics`: the host's metrics, in Prometheus' text format.
//!
//! Labels are bounded: drivers are those of the documents, methods and codes those of CSI and gRPC. docs/kubernetes.md has the same table.

use crate::readiness::{DriverReport, Readiness};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::collections::btree_map::Iter;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmount_core::driver::Driver;
use wasmount_core::fault::FaultKind;
use wasmount_core::names::DriverName;
use wasmount_csi::CallMetrics;
use wasmount_versions::{RefusalKind, VersionReconciler};

/// OpenMetrics 1.0, which Prometheus accepts since 2.5.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of one host.
pub(crate) struct Metrics {
    readiness: Arc<Readiness>,
    calls: CallMetrics,
    drivers: Mutex<BTreeMap<DriverName, Shown>>,
}

/// The sources of one serving driver's metrics.
struct Shown {
    driver: Arc<Driver>,
    reconciler: Arc<VersionReconciler>,
    counts: Arc<VersionCounts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDriver {
    driver: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFault {
    driver: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVersion {
    driver: String,
    version: String,
    digest: String,
}

/// Counts of changes to the versions of one driver since the host started.
#[derive(Debug, Default)]
pub(crate) struct VersionCounts {
    swaps: AtomicU64,
    rollbacks: AtomicU64,
    refusals: Mutex<BTreeMap<RefusalKind, u64>>,
}

impl Metrics {
    /// The metrics of a host without drivers yet.
    pub(crate) fn new(readiness: Arc<Readiness>) -> Self {
        Self {
            readiness,
            calls: CallMetrics::default(),
            drivers: Mutex::default(),
        }
    }

    /// The metrics that the servers update.
    pub(crate) fn calls(&self) -> CallMetrics {
        self.calls.clone()
    }

    /// Adds the metrics of this driver's plugin: its faults, and its versions, which the task that watches them counts.
    pub(crate) fn add(
        &self,
        driver: Arc<Driver>,
        reconciler: Arc<VersionReconciler>,
    ) -> Arc<VersionCounts> {
        let counts = Arc::<VersionCounts>::default();
        let shown = Shown {
            driver: driver.clone(),
            reconciler,
            counts: counts.clone(),
        };
        self.drivers().insert(driver.name().clone(), shown);
        counts
    }

    /// Removes the metrics of a driver.
    pub(crate) fn remove(&self, driver: &DriverName) {
        self.drivers().remove(driver);
    }

    fn drivers(&self) -> MutexGuard<'_, BTreeMap<DriverName, Shown>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &registry) {
            tracing::error!(%error, "metrics cannot be encoded");
        }
        text
    }

    fn register_drivers(&self, registry: &mut Registry) {
        let report = self.readiness.report();
        let drivers = || report.drivers.iter();
        let yes = |is: bool| i64::from(is);

        let ready = |driver: &DriverReport| Some(yes(report.not_ready(driver).is_none()));
        let help = "1 if the driver can do all that it is asked for, as /readyz/<driver> says";
        gauges(registry, "driver_ready", help, drivers(), ready);

        let loaded = |driver: &DriverReport| Some(yes(driver.no_plugin.is_none()));
        let help = "1 if the driver has a plugin";
        gauges(registry, "plugin_loaded", help, drivers(), loaded);

        let usable = |driver: &DriverReport| Some(yes(driver.storage.is_none()));
        let help = "1 if the pools of the driver can be used on this node";
        gauges(registry, "storage_usable", help, drivers(), usable);

        let registered =
            |driver: &DriverReport| Some(yes(driver.registration.as_ref()?.registered));
        let help = "1 if kubelet has taken the driver; absent where the host does not register it";
        gauges(registry, "driver_registered", help, drivers(), registered);

        let listed = |driver: &DriverReport| Some(yes(driver.listing.as_ref()?.listed));
        let help = "1 if CSINode and Node say what the driver says; absent where nobody looks";
        gauges(registry, "driver_listed", help, drivers(), listed);

        let taken = |driver: &DriverReport| Some(driver.registration.as_ref()?.registrations);
        let help = "How often kubelet took the driver";
        counters(registry, "registrations", help, drivers(), taken);

        let refused = |driver: &DriverReport| Some(driver.registration.as_ref()?.refusals);
        let help = "How often kubelet refused the driver";
        counters(registry, "registration_refusals", help, drivers(), refused);

        let bound = |driver: &DriverReport| Some(driver.registration.as_ref()?.rebinds);
        let help = "How often the registration socket was bound again";
        counters(registry, "registration_rebinds", help, drivers(), bound);

        let drifts = |driver: &DriverReport| Some(driver.listing.as_ref()?.drifts);
        let help = "How often CSINode or Node ceased to say what the driver says";
        counters(registry, "listing_drifts", help, drivers(), drifts);

        let gaps = Family::<OfDriver, Gauge<f64, AtomicU64>>::default();
        for (name, driver) in drivers() {
            let gap = driver.registration.as_ref().and_then(|it| it.gap);
            if let Some(gap) = gap {
                let gauge = gaps.get_or_create(&of(name));
                gauge.set(gap.length.as_secs_f64());
            }
        }
        let help = "How long nobody served the driver before this host took over";
        registry.register_with_unit("handover_gap", help, Unit::Seconds, gaps);
    }

    fn register_faults(&self, registry: &mut Registry) {
        let faults = Family::<OfFault, Counter>::default();
        for Shown { driver, .. } in self.drivers().values() {
            let counts = driver.fault_counts();
            for &kind in FaultKind::ALL {
                // Faults that never occurred are shown as well: a rate needs a zero to start at.
                let labels = OfFault {
                    driver: driver.name().to_string(),
                    kind: kind.as_str(),
                };
                let count = counts.get(&kind).copied().unwrap_or(0);
                faults.get_or_create(&labels).inc_by(count);
            }
        }
        let help = "Calls that failed by a fault of the driver's plugin";
        registry.register("plugin_faults", help, faults);
    }
}

impl Metrics {
    fn register_versions(&self, registry: &mut Registry) {
        let infos = Family::<OfVersion, Gauge>::default();
        let swaps = Family::<OfDriver, Counter>::default();
        let rollbacks = Family::<OfDriver, Counter>::default();
        let refusals = Family::<OfFault, Counter>::default();
        for (name, shown) in self.drivers().iter() {
            if let Some(version) = shown.reconciler.status().current {
                let labels = OfVersion {
                    driver: name.to_string(),
                    version: version.plugin_version,
                    digest: version.digest,
                };
                infos.get_or_create(&labels).set(1);
            }
            let counts = &shown.counts;
            swaps
                .get_or_create(&of(name))
                .inc_by(counts.swaps.load(Ordering::Relaxed));
            let back = counts.rollbacks.load(Ordering::Relaxed);
            rollbacks.get_or_create(&of(name)).inc_by(back);
            let refused = counts
                .refusals
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for kind in RefusalKind::ALL {
                let labels = OfFault {
                    driver: name.to_string(),
                    kind: kind.as_str(),
                };
                let count = refused.get(kind).copied().unwrap_or(0);
                refusals.get_or_create(&labels).inc_by(count);
            }
        }
        let help = "The version that serves; always 1";
        registry.register("plugin_info", help, infos);
        let help = "How often another version was put to use";
        registry.register("plugin_swaps", help, swaps);
        let help = "How often a version was taken back, by the host or by hand";
        registry.register("plugin_rollbacks", help, rollbacks);
        let help = "Versions that were refused";
        registry.register("plugin_refusals", help, refusals);
    }
}

impl VersionCounts {
    /// Counts a swap: another version serves.
    pub(crate) fn swapped(&self) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rollback.
    pub(crate) fn rolled_back(&self) {
        self.rollbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rejected version.
    pub(crate) fn refused(&self, kind: RefusalKind) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        *refusals.entry(kind).or_default() += 1;
    }
}

type Drivers<'a> = Iter<'a, DriverName, DriverReport>;

fn gauges(
    registry: &mut Registry,
    name: &str,
    help: &str,
    drivers: Drivers<'_>,
    value: impl Fn(&DriverReport) -> Option<i64>,
) {
    let set = |gauge: &Gauge, value| {
        gauge.set(value);
    };
    family(registry, name, help, drivers, value, set);
}

fn counters(
    registry: &mut Registry,
    name: &str,
    help: &str,
    drivers: Drivers<'_>,
    value: impl Fn(&DriverReport) -> Option<u64>,
) {
    let set = |counter: &Counter, value| {
        counter.inc_by(value);
    };
    family(registry, name, help, drivers, value, set);
}

/// One metric with a value for each driver that has one.
fn family<M, V>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    drivers: Drivers<'_>,
    value: impl Fn(&DriverReport) -> Option<V>,
    set: impl Fn(&M, V),
) where
    M: EncodeMetric + TypedMetric + Debug + Default + Send + Sync + 'static,
{
    let family = Family::<OfDriver, M>::default();
    for (name, driver) in drivers {
        if let Some(value) = value(driver) {
            set(&family.get_or_create(&of(name)), value);
        }
    }
    registry.register(name, help, family);
}

fn of(name: &DriverName) -> OfDriver {
    OfDriver {
        driver: name.to_string(),
    }
}

#[cfg(test)]
mod tests;
