//! The plugin in use as a call takes it: its backend, what was derived from it, and what is counted for its version.

use super::calls::{Calls, Ticket};
use super::{Driver, ServingPolicy, VersionFault};
use crate::backend::{Backend, NodeDescription};
use crate::capabilities::{Capabilities, serves};
use crate::fault::FaultKind;
use crate::rpc::Rpc;
use arc_swap::ArcSwapOption;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// A backend in use, with what was derived from it: taken once by a call, so that a swap never shows in the middle of one.
pub(super) struct Plugin {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) policy: ServingPolicy,
    pub(super) capabilities: Capabilities,
    /// What it said of the node.
    pub(super) node: NodeInfoCache,
    /// Those that ask it.
    pub(super) calls: Calls,
    /// How many of them ended without a fault of it.
    pub(super) answered: AtomicU64,
    /// About what.
    answered_about: Mutex<BTreeMap<Rpc, About>>,
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
    pub(super) ticket: Option<Ticket>,
}

/// A version that was replaced.
#[derive(Debug, Clone)]
pub struct Retired {
    pub(super) calls: Calls,
}

/// What one plugin said of the node.
#[derive(Default)]
pub(super) struct NodeInfoCache {
    pub(super) said: ArcSwapOption<NodeDescription>,
    /// One question at a time: an older answer must not follow a newer one.
    pub(super) asking: tokio::sync::Mutex<()>,
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
            calls: Calls::default(),
            answered: AtomicU64::new(0),
            answered_about: Mutex::default(),
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

/// The same for each retry.
fn number_of(rpc: Rpc, subject: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (rpc, subject).hash(&mut hasher);
    hasher.finish()
}
