//! The plugin's faults since the start of the host: counted, and sent to listeners.
//!
//! The sender waits for no listener: a slow listener misses the oldest faults, and the counts stay correct.

use super::Driver;
use crate::blame::{RequestContent, RequestStrings};
use crate::call::Origin;
use crate::error::Error;
use crate::fault::{FaultKind, PluginFault};
use crate::mutex::lock;
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use crate::status;
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::broadcast;

/// Faults that are kept for a slow listener. 64: listeners report to people, for whom that many are enough.
const KEPT: usize = 64;
/// Newest faults that are remembered: what a person reads of them.
const RECENT: usize = 10;

/// The faults of one driver.
pub(super) struct Faults {
    counts: Mutex<BTreeMap<FaultKind, u64>>,
    /// The newest first.
    recent: Mutex<VecDeque<RecentFault>>,
    sender: broadcast::Sender<Arc<PluginFault>>,
}

/// A fault, and its time.
#[derive(Debug, Clone)]
pub struct RecentFault {
    /// When it was detected.
    pub at: Timestamp,
    /// The fault.
    pub fault: Arc<PluginFault>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            recent: Mutex::default(),
            sender: broadcast::Sender::new(KEPT),
        }
    }
}

impl Faults {
    fn record(&self, fault: PluginFault) {
        let mut counts = lock(&self.counts);
        *counts.entry(fault.kind).or_default() += 1;
        drop(counts);
        let fault = Arc::new(fault);
        let mut recent = lock(&self.recent);
        recent.truncate(RECENT - 1);
        recent.push_front(RecentFault {
            at: status::now(),
            fault: Arc::clone(&fault),
        });
        drop(recent);
        // Fails when there is no listener.
        let _ = self.sender.send(fault);
    }
}

impl Driver {
    /// Subscribes to the plugin's faults from now on.
    pub fn faults(&self) -> broadcast::Receiver<Arc<PluginFault>> {
        self.faults.sender.subscribe()
    }

    /// The number of faults of each kind; kinds without faults are absent.
    pub fn fault_counts(&self) -> BTreeMap<FaultKind, u64> {
        lock(&self.faults.counts).clone()
    }

    /// The newest fault; none if there was none since the start of the host.
    pub fn last_fault(&self) -> Option<RecentFault> {
        lock(&self.faults.recent).front().cloned()
    }

    /// The newest faults since the start of the host, the newest first; ten at most.
    pub fn recent_faults(&self) -> Vec<RecentFault> {
        lock(&self.faults.recent).iter().cloned().collect()
    }

    /// Counts and reports that a call was rejected for lack of a plugin. A plugin that is still being loaded is not a fault.
    pub fn note(&self, rpc: Rpc, error: &Error, origin: &Origin) {
        let request = RequestContent {
            strings: &RequestStrings::default(),
            secrets: &Secrets::default(),
        };
        self.noted(rpc, error, origin, request);
    }

    /// Counts and reports the fault behind a failed call; returns its kind, if it is a fault.
    pub(super) fn noted(
        &self,
        rpc: Rpc,
        error: &Error,
        origin: &Origin,
        request: RequestContent<'_>,
    ) -> Option<FaultKind> {
        if matches!(error, Error::NoPlugin { .. }) && self.fault.load().is_none() {
            return None;
        }
        let fault = PluginFault::of(&self.config.name, rpc, error, origin, request)?;
        let kind = fault.kind;
        self.faults.record(fault);
        Some(kind)
    }
}
