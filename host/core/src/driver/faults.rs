//! The plugin's faults since the host began: counted, and told to whoever listens.
//!
//! It waits for no listener: one that is slow misses the oldest, and the counts stay right.

use super::Driver;
use crate::blame::{Asked, RequestWords};
use crate::call::Origin;
use crate::error::Error;
use crate::fault::{FaultKind, PluginFault};
use crate::rpc::Rpc;
use crate::secrets::Secrets;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::broadcast;

/// Faults that a slow listener may have ahead of it. 64: listeners tell people, and who sees so many has seen enough.
const KEPT: usize = 64;

/// Of one driver.
pub(super) struct Faults {
    counts: Mutex<BTreeMap<FaultKind, u64>>,
    last: Mutex<Option<LastFault>>,
    told: broadcast::Sender<Arc<PluginFault>>,
}

/// The newest fault.
#[derive(Debug, Clone)]
pub struct LastFault {
    /// When it was found.
    pub at: SystemTime,
    /// What it was.
    pub fault: Arc<PluginFault>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            last: Mutex::default(),
            told: broadcast::Sender::new(KEPT),
        }
    }
}

impl Faults {
    fn tell(&self, fault: PluginFault) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(fault.kind).or_default() += 1;
        drop(counts);
        let fault = Arc::new(fault);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(LastFault {
            at: SystemTime::now(),
            fault: Arc::clone(&fault),
        });
        // It fails when nobody listens.
        let _ = self.told.send(fault);
    }
}

impl Driver {
    /// Faults of the plugin from now on.
    pub fn faults(&self) -> broadcast::Receiver<Arc<PluginFault>> {
        self.faults.told.subscribe()
    }

    /// How many of each kind there were; those that never were are absent.
    pub fn fault_counts(&self) -> BTreeMap<FaultKind, u64> {
        let counts = &self.faults.counts;
        counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The newest of all; none: there was none since the host began.
    pub fn last_fault(&self) -> Option<LastFault> {
        let last = self.faults.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts and tells that a call was refused for want of a plugin. That one is still being loaded says nothing of it.
    pub fn note(&self, rpc: Rpc, error: &Error, origin: &Origin) {
        let asked = Asked {
            words: &RequestWords::default(),
            secrets: &Secrets::default(),
        };
        self.noted(rpc, error, origin, asked);
    }

    /// Counts and tells what a failed call says of the plugin; what kind of fault it is, if it is one.
    pub(super) fn noted(
        &self,
        rpc: Rpc,
        error: &Error,
        origin: &Origin,
        asked: Asked<'_>,
    ) -> Option<FaultKind> {
        if matches!(error, Error::NoPlugin { .. }) && self.fault.load().is_none() {
            return None;
        }
        let fault = PluginFault::of(&self.config.name, rpc, error, origin, asked)?;
        let kind = fault.kind;
        self.faults.tell(fault);
        Some(kind)
    }
}
