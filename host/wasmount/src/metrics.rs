//! `/metrics`: the host's metrics, in the formats of Prometheus. `table` lists them all.

mod call_counts;
mod format;
mod mounter;
mod process;
mod scrape;
mod table;

pub(crate) use call_counts::{CallCounts, MethodCounts};
pub(crate) use format::Format;
pub(crate) use mounter::CountedMounter;

use crate::readiness::Readiness;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use scrape::Scrape;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use table::Metric;
use wasmount_core::driver::Driver;
use wasmount_core::fault::FaultKind;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmount_core::state::StateStore;
use wasmount_core::status::{Phase, RefusalKind};
use wasmount_csi::CallMetrics;
use wasmount_engine::Engine;
use wasmount_versions::{VersionEvent, VersionReconciler};

/// Why a version was rolled back, as a label.
const TRIGGERS: [&str; 2] = ["command", "faults"];

/// The steps of a swap, as a label.
const SWAP_STEPS: [&str; 3] = ["proving", "switching", "writing"];

/// The metrics of one host.
pub(crate) struct Metrics {
    readiness: Arc<Readiness>,
    calls: CallMetrics,
    /// What events count. All other values are read when they are requested.
    counted: Mutex<Scrape>,
    drivers: Mutex<BTreeMap<DriverName, Shown>>,
    services: OnceLock<SharedSources>,
}

/// The sources of what all drivers share.
pub(crate) struct SharedSources {
    /// Compilations.
    pub(crate) engine: Arc<Engine>,
    /// The state store.
    pub(crate) state: Arc<dyn StateStore>,
    /// The mounter, with its requests.
    pub(crate) mounter: Arc<CountedMounter>,
}

/// The sources of one serving driver's metrics.
struct Shown {
    driver: Arc<Driver>,
    reconciler: Arc<VersionReconciler>,
}

impl Metrics {
    /// The metrics of a host without drivers yet.
    pub(crate) fn new(readiness: Arc<Readiness>) -> Self {
        Self {
            readiness,
            calls: CallMetrics::default(),
            counted: Mutex::default(),
            drivers: Mutex::default(),
            services: OnceLock::new(),
        }
    }

    /// The metrics that the servers update.
    pub(crate) fn calls(&self) -> CallMetrics {
        self.calls.clone()
    }

    /// Adds the metrics of what all drivers share. Only the first call has an effect.
    pub(crate) fn share(&self, services: SharedSources) {
        self.services.get_or_init(|| services);
    }

    /// Adds the metrics of this driver's plugin. Counts are shown from the start: a rate needs a zero to start at.
    pub(crate) fn add(&self, driver: Arc<Driver>, reconciler: Arc<VersionReconciler>) {
        let name = driver.name().clone();
        let mut counted = lock(&self.counted);
        counted.add(&table::PLUGIN_SWAPS, &[name.as_str()], 0.0);
        for step in SWAP_STEPS {
            counted.add(&table::PLUGIN_SWAP_SECONDS, &[name.as_str(), step], 0.0);
        }
        for trigger in TRIGGERS {
            counted.add(&table::PLUGIN_ROLLBACKS, &[name.as_str(), trigger], 0.0);
        }
        for kind in RefusalKind::ALL {
            let labels = [name.as_str(), kind.as_str()];
            counted.add(&table::PLUGIN_REFUSALS, &labels, 0.0);
        }
        drop(counted);
        lock(&self.drivers).insert(name, Shown { driver, reconciler });
    }

    /// Counts a change to the versions of a driver.
    pub(crate) fn count(&self, driver: &DriverName, event: &VersionEvent) {
        let (name, mut counted) = (driver.as_str(), lock(&self.counted));
        match event {
            VersionEvent::Swapped(outcome) => {
                counted.add(&table::PLUGIN_SWAPS, &[name], 1.0);
                let took = [outcome.proving, outcome.switching, outcome.writing];
                for (step, took) in SWAP_STEPS.into_iter().zip(took) {
                    let labels = [name, step];
                    counted.add(&table::PLUGIN_SWAP_SECONDS, &labels, took.as_secs_f64());
                }
            }
            VersionEvent::RolledBack { by_itself, .. } => {
                let [command, faults] = TRIGGERS;
                let trigger = if *by_itself { faults } else { command };
                counted.add(&table::PLUGIN_ROLLBACKS, &[name, trigger], 1.0);
            }
            VersionEvent::Refused(refused) => {
                let labels = [name, refused.kind.as_str()];
                counted.add(&table::PLUGIN_REFUSALS, &labels, 1.0);
            }
            VersionEvent::Shared(_)
            | VersionEvent::CannotRollBack { .. }
            | VersionEvent::StillDraining(_) => {}
        }
    }

    /// Removes the metrics of a driver.
    pub(crate) fn remove(&self, driver: &DriverName) {
        lock(&self.drivers).remove(driver);
        lock(&self.counted).remove(driver.as_str());
    }

    /// The text of all metrics now.
    pub(crate) fn text(&self, format: Format) -> String {
        let mut scrape = lock(&self.counted).clone();
        scrape.set(&table::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
        self.set_reported(&mut scrape);
        for (name, shown) in lock(&self.drivers).iter() {
            set_driver(&mut scrape, name.as_str(), &shown.driver);
            set_versions(&mut scrape, name.as_str(), &shown.reconciler);
            set_network(&mut scrape, name.as_str(), &shown.reconciler);
        }
        self.set_services(&mut scrape);
        if let Some(usage) = wasmount_mount::process_usage() {
            process::set(&mut scrape, &usage, process::HOST);
        }
        let mut registry = self.of_calls();
        registry.register_collector(Box::new(scrape));
        format.of(encoded(&registry))
    }

    /// How many calls have ended so far, and how long they took.
    pub(crate) fn call_counts(&self) -> CallCounts {
        CallCounts::of(&encoded(&self.of_calls()))
    }

    fn of_calls(&self) -> Registry {
        let mut registry = Registry::default();
        let [duration, in_flight] = [&table::CSI_CALL_DURATION, &table::CSI_CALLS_IN_FLIGHT];
        self.calls
            .register(&mut registry, duration.help, in_flight.help);
        registry
    }

    /// What readiness knows of each driver; a value that is not known is absent.
    fn set_reported(&self, scrape: &mut Scrape) {
        let report = self.readiness.report();
        for (name, found) in &report.drivers {
            let mut set = |metric: &'static Metric, value: Option<f64>| {
                if let Some(value) = value {
                    scrape.set(metric, &[name.as_str()], value);
                }
            };
            let is_ready = report.not_ready(found).is_none();
            set(&table::DRIVER_READY, Some(is_ready.into()));
            let is_loaded = found.no_plugin.is_none();
            set(&table::PLUGIN_LOADED, Some(is_loaded.into()));
            let is_usable = found.storage.is_none();
            set(&table::STORAGE_USABLE, Some(is_usable.into()));
            let listing = found.listing.as_ref();
            set(&table::DRIVER_LISTED, listing.map(|it| it.listed.into()));
            set(&table::LISTING_DRIFTS, listing.map(|it| it.drifts as f64));
            if let Some(it) = &found.registration {
                set(&table::DRIVER_REGISTERED, Some(it.registered.into()));
                set(&table::REGISTRATIONS, Some(it.registrations as f64));
                set(&table::REGISTRATION_REFUSALS, Some(it.refusals as f64));
                set(&table::REGISTRATION_REBINDS, Some(it.rebinds as f64));
                let gap = it.gap.map(|gap| gap.length.as_secs_f64());
                set(&table::HANDOVER_GAP, gap);
            }
            if let Some(volumes) = found.volumes {
                set(&table::VOLUMES_STAGED, Some(volumes.staged as f64));
                set(&table::VOLUMES_PUBLISHED, Some(volumes.published as f64));
            }
            for (pool, usage) in &found.pools {
                let labels = [name.as_str(), pool];
                for (metric, bytes) in [
                    (&table::POOL_SIZE, usage.total_bytes),
                    (&table::POOL_AVAILABLE, usage.available_bytes),
                    (&table::POOL_PROMISED, usage.promised_bytes),
                    (&table::POOL_USED, usage.used_bytes),
                ] {
                    scrape.set(metric, &labels, bytes as f64);
                }
            }
        }
    }

    fn set_services(&self, scrape: &mut Scrape) {
        let Some(services) = self.services.get() else {
            return;
        };
        services.mounter.set(scrape);
        let (compilations, took) = services.engine.compilations();
        scrape.set(&table::COMPILATIONS, &[], compilations as f64);
        scrape.set(&table::COMPILATION_SECONDS, &[], took.as_secs_f64());
        if let Some(usage) = services.state.usage() {
            let took = usage.commit_time.as_secs_f64();
            scrape.set(&table::STORE_SIZE, &[], usage.file_bytes as f64);
            scrape.set(&table::STORE_COMMITS, &[], usage.commits as f64);
            scrape.set(&table::STORE_COMMIT_SECONDS, &[], took);
        }
    }
}

/// The text in OpenMetrics.
fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    if let Err(error) = encode(&mut text, registry) {
        tracing::error!(%error, "metrics cannot be encoded");
    }
    text
}

fn set_driver(scrape: &mut Scrape, name: &str, driver: &Driver) {
    let counts = driver.fault_counts();
    for kind in FaultKind::ALL {
        // Faults that never occurred are shown as well: a rate needs a zero to start at.
        let count = counts.get(kind).copied().unwrap_or(0);
        scrape.set(&table::PLUGIN_FAULTS, &[name, kind.as_str()], count as f64);
    }
    let rejected = driver.claims_rejected();
    scrape.set(&table::CLAIMS_REJECTED, &[name], rejected as f64);
    let recoveries = driver.recoveries();
    for (outcome, count) in [
        ("succeeded", recoveries.succeeded),
        ("failed", recoveries.failed),
    ] {
        scrape.set(&table::RECOVERIES, &[name, outcome], count as f64);
    }
    if let Some(leads) = driver.leads() {
        scrape.set(&table::DRIVER_LEADER, &[name], leads.into());
    }
    if let Some(load) = driver.load() {
        scrape.set(&table::PLUGIN_PLACES, &[name], load.limit as f64);
        scrape.set(&table::PLUGIN_RUNNING, &[name], load.running as f64);
        scrape.set(&table::PLUGIN_WAITING, &[name], load.waiting as f64);
    }
    for (rpc, usage) in driver.usage() {
        let labels = [name, rpc.name()];
        let (used, peak) = (usage.used, usage.used.memory_bytes);
        scrape.set(&table::PLUGIN_CALLS, &labels, usage.calls as f64);
        scrape.set(&table::PLUGIN_CPU, &labels, used.cpu.as_secs_f64());
        scrape.set(&table::PLUGIN_SECONDS, &labels, used.wall.as_secs_f64());
        scrape.set(&table::PLUGIN_MEMORY_PEAK, &labels, peak as f64);
    }
}

fn set_versions(scrape: &mut Scrape, name: &str, reconciler: &VersionReconciler) {
    let status = reconciler.status();
    let shown = status.shown_phase();
    for phase in Phase::ALL {
        let is_shown = f64::from(*phase == shown);
        scrape.set(&table::DRIVER_PHASE, &[name, phase.name()], is_shown);
    }
    for (metric, is_set) in [
        (&table::DRIVER_HELD, status.held.is_some()),
        (&table::DRIVER_PAUSED, status.paused),
        (&table::DRIVER_DRAINED, status.drained.is_some()),
    ] {
        scrape.set(metric, &[name], is_set.into());
    }
    let percent = status.share.map_or(0, |share| share.percent);
    scrape.set(&table::PLUGIN_SHARE, &[name], percent.into());
    if let Some(version) = status.version {
        let since = version.since.as_second() as f64;
        scrape.set(&table::PLUGIN_SERVING_SINCE, &[name], since);
        let labels = [name, &version.plugin_version, &version.digest];
        scrape.set(&table::PLUGIN_INFO, &labels, 1.0);
    }
}

/// Labels are the names of grants, never hosts or URLs.
fn set_network(scrape: &mut Scrape, name: &str, reconciler: &VersionReconciler) {
    for (grant, usage) in reconciler.network_usage() {
        for (metric, outcome, count) in [
            (&table::NETWORK_REQUESTS, "succeeded", usage.succeeded),
            (&table::NETWORK_REQUESTS, "rejected", usage.rejected),
            (&table::NETWORK_REQUESTS, "failed", usage.failed),
            (&table::NETWORK_REQUESTS, "unsent", usage.unsent),
            (&table::NETWORK_REQUESTS, "lost", usage.lost),
            (&table::NETWORK_LOGINS, "succeeded", usage.logins),
            (&table::NETWORK_LOGINS, "failed", usage.failed_logins),
        ] {
            scrape.set(metric, &[name, &grant, outcome], count as f64);
        }
        let (labels, time) = ([name, grant.as_str()], usage.time.as_secs_f64());
        scrape.set(&table::NETWORK_RETRIES, &labels, usage.retries as f64);
        scrape.set(&table::NETWORK_IN_FLIGHT, &labels, usage.in_flight as f64);
        scrape.set(&table::NETWORK_SECONDS, &labels, time);
    }
}

#[cfg(test)]
mod tests;
