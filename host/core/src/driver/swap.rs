//! The swap of versions. A call keeps the plugin with which it started, and a replaced version is dropped when its last call has ended.

use super::calls::{RunningCall, RunningCalls};
use super::plugin::{Entered, Plugin};
use super::share::About;
use super::{Driver, ServingPolicy};
use crate::backend::Backend;
use crate::capabilities::Capabilities;
use crate::error::Error;
use crate::mutex::lock;
use crate::rpc::Rpc;
use crate::services::{Service, ServiceSet};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use tokio::sync::watch;
use tokio::time::Instant;

impl Driver {
    /// Directs new calls to this backend; running ones keep theirs. Returns the calls of the replaced version.
    pub fn activate(
        &self,
        backend: Arc<dyn Backend>,
        policy: ServingPolicy,
    ) -> Option<RunningCalls> {
        let offer = backend.offer().clone();
        let plugin = self.plugin_with(backend, policy);
        let mut retired = lock(&self.retired);
        let replaced = self.plugin.swap(Some(Arc::clone(&plugin)));
        let old = replaced.as_ref().map(|old| old.calls.clone());
        self.retire(&mut retired, old.clone());
        let grown = |old: Arc<Plugin>| !plugin.capabilities.is_within(&old.capabilities);
        if replaced.is_some_and(grown) {
            self.grown.send_modify(|times| *times += 1);
        }
        self.fault.store(None);
        self.offered.send_replace(Some(offer));
        old
    }

    /// After another version has taken the place of one with these calls.
    pub(super) fn retire(&self, retired: &mut Vec<RunningCalls>, calls: Option<RunningCalls>) {
        // Pairs with the fence in `enter`: a call whose count was not visible here sees the swap.
        fence(Ordering::SeqCst);
        retired.retain(|calls| calls.count() > 0);
        retired.extend(calls);
        self.health.forget_all();
    }

    pub(super) fn plugin_with(
        &self,
        backend: Arc<dyn Backend>,
        policy: ServingPolicy,
    ) -> Arc<Plugin> {
        let (role, profile) = (self.config.role, self.config.profile);
        let capabilities = Capabilities::derive(backend.offer(), role, profile, &policy.hidden);
        Arc::new(Plugin::new(backend, policy, capabilities))
    }

    /// The services and features of the backend in use, now and after each change; none before the first one.
    pub fn offers(&self) -> watch::Receiver<Option<ServiceSet>> {
        self.offered.subscribe()
    }

    /// How often a version advertised more than the one before. Sidecars read capabilities once, so their connections must be closed to make them
    /// read again.
    pub fn capabilities_grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Calls that run in a plugin now, in any version.
    pub fn calls_in_flight(&self) -> usize {
        self.all_calls().iter().map(RunningCalls::count).sum()
    }

    /// Those calls, the longest first.
    pub fn running_calls(&self) -> Vec<RunningCall> {
        let versions = self.all_calls();
        let mut running: Vec<_> = versions.iter().flat_map(RunningCalls::running).collect();
        running.sort_by_key(|call| std::cmp::Reverse(call.since));
        running
    }

    /// Calls that the version in use has ended without being stopped and without a fault of its own.
    pub fn calls_answered(&self) -> u64 {
        let plugin = self.plugin.load();
        let answered = |plugin: &Arc<Plugin>| plugin.answered.load(Ordering::Relaxed);
        plugin.as_ref().map_or(0, answered)
    }

    /// Reads the policy of the version in use, or without one the driver's.
    pub(super) fn policy_now<T>(&self, read: impl FnOnce(&ServingPolicy) -> T) -> T {
        let plugin = self.plugin.load();
        let policy = plugin.as_ref().map(|plugin| &plugin.policy);
        read(policy.unwrap_or(&self.config.policy))
    }

    /// The calls of every version that may have some.
    pub(super) fn all_calls(&self) -> Vec<RunningCalls> {
        let retired = lock(&self.retired);
        let mut all = retired.clone();
        let plugin = self.plugin.load();
        all.extend(plugin.as_ref().map(|plugin| plugin.calls.clone()));
        all.extend(self.calls_of_share());
        all
    }

    /// The plugin for a call. While calls are held it waits for their release, until `until`.
    pub(super) async fn enter(
        &self,
        rpc: Rpc,
        about: Option<About<'_>>,
        until: Instant,
    ) -> Result<Entered, Error> {
        loop {
            let Some(plugin) = self.plugin_for(rpc, about)? else {
                return Ok(Entered::default());
            };
            if !uses_plugin(rpc, plugin.backend.offer()) {
                return Ok(Entered {
                    plugin: Some(plugin),
                    ticket: None,
                });
            }
            let ticket = plugin.calls.begin(rpc);
            fence(Ordering::SeqCst);
            let in_use = self.plugin_of(about);
            let is_in_use = in_use.as_ref().is_some_and(|it| Arc::ptr_eq(it, &plugin));
            if !is_in_use {
                continue;
            }
            if !self.holds.is_quiesced() {
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

/// Whether a call may use the plugin; kernel and journal answer the others.
fn uses_plugin(rpc: Rpc, offer: &ServiceSet) -> bool {
    match rpc {
        Rpc::NodeUnpublishVolume | Rpc::NodeExpandVolume => false,
        Rpc::NodeUnstageVolume => offer.has(Service::NodeHooks),
        Rpc::NodeGetVolumeStats | Rpc::NodeGetVolumeHealth => offer.has(Service::VolumeHealth),
        _ => true,
    }
}
