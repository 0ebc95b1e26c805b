//! One version after another. A call begins with one plugin and keeps it, and a version that was replaced is gone when its last call has ended.

use super::calls::{Calls, RunningCall, Ticket};
use super::node_info::NodeInfoCache;
use super::{Driver, ServingPolicy, VersionFault};
use crate::backend::Backend;
use crate::capabilities::{Capabilities, Hidden, serves};
use crate::error::Error;
use crate::fault::FaultKind;
use crate::rpc::Rpc;
use crate::services::{Service, ServiceSet};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A backend in use, with what was derived from it: taken once by a call, so that a swap never shows in the middle of one.
pub(super) struct Plugin {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) policy: ServingPolicy,
    pub(super) capabilities: Capabilities,
    /// What it said of the node.
    pub(super) node: NodeInfoCache,
    /// Those that ask it.
    calls: Calls,
    /// How many of them ended without a fault of it.
    answered: AtomicU64,
    /// About what.
    answered_about: Mutex<BTreeMap<Rpc, About>>,
    faults: Mutex<BTreeMap<FaultKind, u64>>,
}

/// What the calls of one kind that ended well were about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// One thing.
    One(u64),
    /// More than one.
    Several,
}

/// A plugin for one call, counted among those that ask it for as long as this lives.
pub(super) struct Entered {
    pub(super) plugin: Option<Arc<Plugin>>,
    ticket: Option<Ticket>,
}

/// A version that was replaced.
#[derive(Debug, Clone)]
pub struct Retired {
    calls: Calls,
}

impl Retired {
    /// Calls that still run on it.
    pub fn calls_in_flight(&self) -> usize {
        self.calls.count()
    }

    /// Returns when the last of them has ended.
    pub async fn ended(&self) {
        self.calls.ended().await;
    }
}

impl Plugin {
    fn new(backend: Arc<dyn Backend>, policy: ServingPolicy, capabilities: Capabilities) -> Self {
        Self {
            backend,
            policy,
            capabilities,
            node: NodeInfoCache::default(),
            calls: Calls::new(),
            answered: AtomicU64::new(0),
            answered_about: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    pub(super) fn serves(&self, rpc: Rpc) -> bool {
        serves(self.backend.offer(), &self.capabilities, rpc)
    }

    /// A call ended by itself, well or by a fault that is not the plugin's.
    pub(super) fn has_answered(&self, rpc: Rpc, subject: Option<&str>) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let number = number_of(rpc, subject);
        let mut all = self.answered_about();
        let about = all.entry(rpc).or_insert(About::One(number));
        if *about != About::One(number) {
            *about = About::Several;
        }
    }

    pub(super) fn has_failed(&self, rpc: Rpc, subject: Option<&str>, kind: FaultKind) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        *faults.entry(kind).or_default() += 1;
        drop(faults);
        if let Some(told) = &self.policy.faults {
            let subject = number_of(rpc, subject);
            let about = self.answered_about().get(&rpc).copied();
            // It fails when nobody listens, or too slowly.
            let _ = told.try_send(VersionFault {
                at: Instant::now(),
                rpc,
                kind,
                subject,
                answers_others: about.is_some_and(|about| about != About::One(subject)),
            });
        }
    }

    fn answered_about(&self) -> MutexGuard<'_, BTreeMap<Rpc, About>> {
        let about = self.answered_about.lock();
        about.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered {
    /// The plugin's, or without one the driver's.
    pub(super) fn policy<'a>(&'a self, driver: &'a Driver) -> &'a ServingPolicy {
        let policy = self.plugin.as_ref().map(|plugin| &plugin.policy);
        policy.unwrap_or(&driver.config.policy)
    }

    /// Whether the call may ask the plugin.
    pub(super) fn asks(&self) -> bool {
        self.ticket.is_some()
    }
}

impl Driver {
    /// From now on calls go to this backend; running ones keep theirs. Returns what it replaces.
    pub fn activate(&self, backend: Arc<dyn Backend>, policy: ServingPolicy) -> Option<Retired> {
        let capabilities = Capabilities::derive(
            backend.offer(),
            self.config.role,
            self.config.profile,
            &policy.hidden,
        );
        let offer = backend.offer().clone();
        let plugin = Arc::new(Plugin::new(backend, policy, capabilities));
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = self.plugin.swap(Some(Arc::clone(&plugin)));
        // Pairs with the one in `enter`: a call that was not seen to be counted sees the swap.
        fence(Ordering::SeqCst);
        retired.retain(|version| version.calls_in_flight() > 0);
        let old = replaced.as_ref().map(|old| Retired {
            calls: old.calls.clone(),
        });
        retired.extend(old.clone());
        let grown = |old: Arc<Plugin>| !plugin.capabilities.is_within(&old.capabilities);
        if replaced.is_some_and(grown) {
            self.grown.send_modify(|times| *times += 1);
        }
        self.health.forget_all();
        self.fault.store(None);
        self.offered.send_replace(Some(offer));
        old
    }

    /// What the backend in use offers, now and after each change; none: there was never one.
    pub fn offers(&self) -> watch::Receiver<Option<ServiceSet>> {
        self.offered.subscribe()
    }

    /// How often a version advertised what the one before did not: sidecars read capabilities once, so their connections are to be closed,
    /// which has them look again.
    pub fn capabilities_grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Calls that ask a plugin now, whichever version.
    pub fn calls_in_flight(&self) -> usize {
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let old: usize = retired.iter().map(Retired::calls_in_flight).sum();
        let plugin = self.plugin.load();
        old + plugin.as_ref().map_or(0, |plugin| plugin.calls.count())
    }

    /// Those calls, the longest first.
    pub fn running_calls(&self) -> Vec<RunningCall> {
        let versions = self.all_versions();
        let mut running: Vec<RunningCall> = versions
            .iter()
            .flat_map(|version| version.calls.running())
            .collect();
        running.sort_by_key(|call| std::cmp::Reverse(call.since));
        running
    }

    /// Calls that the version in use has ended by itself, without a fault of its own.
    pub fn calls_answered(&self) -> u64 {
        let plugin = self.plugin.load();
        let answered = |plugin: &Arc<Plugin>| plugin.answered.load(Ordering::Relaxed);
        plugin.as_ref().map_or(0, answered)
    }

    /// Faults of the version in use, by kind; those that never were are absent.
    pub fn version_faults(&self) -> BTreeMap<FaultKind, u64> {
        let plugin = self.plugin.load();
        let faults = |plugin: &Arc<Plugin>| {
            let faults = plugin.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults.clone()
        };
        plugin.as_ref().map(faults).unwrap_or_default()
    }

    /// How long a call that begins now may take.
    pub(super) fn time_budget(&self) -> Duration {
        let plugin = self.plugin.load();
        let policy = plugin.as_ref().map(|plugin| &plugin.policy);
        policy.unwrap_or(&self.config.policy).time_budget
    }

    /// What is hidden now.
    pub(super) fn hidden(&self) -> Hidden {
        let plugin = self.plugin.load();
        let policy = plugin.as_ref().map(|plugin| &plugin.policy);
        policy.unwrap_or(&self.config.policy).hidden.clone()
    }

    /// Every version that may have calls.
    pub(super) fn all_versions(&self) -> Vec<Retired> {
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = retired.clone();
        let plugin = self.plugin.load();
        all.extend(plugin.as_ref().map(|plugin| Retired {
            calls: plugin.calls.clone(),
        }));
        all
    }

    /// The plugin for a call. While calls are held it waits for that to end, until `until`.
    pub(super) async fn enter(&self, rpc: Rpc, until: Instant) -> Result<Entered, Error> {
        loop {
            let Some(plugin) = self.plugin_for(rpc)? else {
                return Ok(Entered {
                    plugin: None,
                    ticket: None,
                });
            };
            if !asks_plugin(rpc, plugin.backend.offer()) {
                return Ok(Entered {
                    plugin: Some(plugin),
                    ticket: None,
                });
            }
            let ticket = plugin.calls.begin(rpc);
            fence(Ordering::SeqCst);
            let in_use = self.plugin.load();
            let is_in_use = in_use.as_ref().is_some_and(|it| Arc::ptr_eq(it, &plugin));
            if !is_in_use {
                continue;
            }
            if !self.holds.is_held() {
                return Ok(Entered {
                    plugin: Some(plugin),
                    ticket: Some(ticket),
                });
            }
            drop((ticket, plugin));
            self.holds.released(until).await?;
        }
    }
}

/// The same for each retry.
fn number_of(rpc: Rpc, subject: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (rpc, subject).hash(&mut hasher);
    hasher.finish()
}

/// Whether a call may ask the plugin; the others are the kernel's and the journal's.
fn asks_plugin(rpc: Rpc, offer: &ServiceSet) -> bool {
    match rpc {
        Rpc::NodeUnpublishVolume | Rpc::NodeExpandVolume => false,
        Rpc::NodeUnstageVolume => offer.has(Service::NodeHooks),
        Rpc::NodeGetVolumeStats | Rpc::NodeGetVolumeHealth => offer.has(Service::VolumeHealth),
        _ => true,
    }
}
