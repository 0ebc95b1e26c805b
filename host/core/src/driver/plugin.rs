//! The plugin in use, as a call sees it: its backend, the data derived from it, and the counters of its version.

use super::calls::{RunningCalls, Ticket};
use super::{Driver, ServingPolicy, VersionFault};
use crate::backend::{Backend, NodeDescription};
use crate::capabilities::{Capabilities, serves};
use crate::fault::FaultKind;
use crate::mutex::lock;
use crate::rpc::Rpc;
use arc_swap::ArcSwapOption;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// A backend in use, with the data derived from it. A call takes it once, so that a swap does not affect a running call.
pub(super) struct Plugin {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) policy: ServingPolicy,
    pub(super) capabilities: Capabilities,
    /// Its description of the node.
    pub(super) node: NodeInfoCache,
    /// The calls that run in it.
    pub(super) calls: RunningCalls,
    /// How many of them ended without a fault of the plugin.
    pub(super) answered: AtomicU64,
    /// The subjects of these calls.
    answered_about: Mutex<BTreeMap<Rpc, About>>,
}

/// The subjects of successful calls of one RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// One subject, as a hash.
    One(u64),
    /// More than one subject.
    Several,
}

/// A plugin for one call, which counts as running in it during the lifetime of this value.
#[derive(Default)]
pub(super) struct Entered {
    pub(super) plugin: Option<Arc<Plugin>>,
    pub(super) ticket: Option<Ticket>,
}

/// A plugin's description of the node.
#[derive(Default)]
pub(super) struct NodeInfoCache {
    pub(super) description: ArcSwapOption<NodeDescription>,
    /// One query at a time: an older answer must not overwrite a newer one.
    pub(super) query_lock: tokio::sync::Mutex<()>,
}

impl Plugin {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        policy: ServingPolicy,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            backend,
            policy,
            capabilities,
            node: NodeInfoCache::default(),
            calls: RunningCalls::default(),
            answered: AtomicU64::new(0),
            answered_about: Mutex::default(),
        }
    }

    pub(super) fn serves(&self, rpc: Rpc) -> bool {
        serves(self.backend.offer(), &self.capabilities, rpc)
    }

    /// A call ended without being stopped, successfully or with an error that is not the plugin's fault.
    pub(super) fn has_answered(&self, rpc: Rpc, subject: Option<&str>) {
        // What the host asks by itself does not show that a version serves its clients.
        if !rpc.is_of_host() {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        let number = number_of(rpc, subject);
        let mut all = lock(&self.answered_about);
        let about = all.entry(rpc).or_insert(About::One(number));
        if *about != About::One(number) {
            *about = About::Several;
        }
    }

    pub(super) fn has_failed(&self, rpc: Rpc, subject: Option<&str>, kind: FaultKind) {
        if let Some(sender) = &self.policy.faults {
            let subject = number_of(rpc, subject);
            let about = lock(&self.answered_about).get(&rpc).copied();
            // Fails when there is no listener, or a slow one.
            let _ = sender.try_send(VersionFault {
                at: Instant::now(),
                rpc,
                kind,
                subject,
                answers_others: about.is_some_and(|about| about != About::One(subject)),
            });
        }
    }
}

impl Entered {
    /// The plugin's policy, or without a plugin the driver's.
    pub(super) fn policy<'a>(&'a self, driver: &'a Driver) -> &'a ServingPolicy {
        let policy = self.plugin.as_ref().map(|plugin| &plugin.policy);
        policy.unwrap_or(&driver.config.policy)
    }

    /// Whether the call may use the plugin.
    pub(super) fn uses_plugin(&self) -> bool {
        self.ticket.is_some()
    }
}

/// A hash of RPC and subject, equal for each retry.
fn number_of(rpc: Rpc, subject: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (rpc, subject).hash(&mut hasher);
    hasher.finish()
}
