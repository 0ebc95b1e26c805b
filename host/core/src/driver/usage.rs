//! What the calls of a driver used since the start of the host, by RPC, and the other counts that only metrics read.
//!
//! A call adds to atomics when it ends; nothing is locked.

use super::Driver;
use crate::backend::Load;
use crate::call::CallUsage;
use crate::rpc::Rpc;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters of a driver.
pub(super) struct Counters {
    of_rpcs: BTreeMap<Rpc, OfRpc>,
    pub(super) recovered: AtomicU64,
    pub(super) not_recovered: AtomicU64,
}

#[derive(Default)]
struct OfRpc {
    calls: AtomicU64,
    used: CallUsage,
}

/// What the calls of one RPC used in the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcUsage {
    /// How many used the plugin.
    pub calls: u64,
    /// CPU time of all.
    pub cpu: Duration,
    /// Time of all, with what they waited for.
    pub wall: Duration,
    /// The most memory of one.
    pub memory_peak_bytes: u64,
}

/// Volumes whose unfinished work an earlier host had left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// Volumes whose work was finished or undone.
    pub succeeded: u64,
    /// Volumes whose work could be neither finished nor undone.
    pub failed: u64,
}

impl Default for Counters {
    fn default() -> Self {
        let of_host = [Rpc::RegisterNode, Rpc::UnregisterNode];
        let all = Rpc::ALL.iter().copied().chain(of_host);
        Self {
            of_rpcs: all.map(|rpc| (rpc, OfRpc::default())).collect(),
            recovered: AtomicU64::new(0),
            not_recovered: AtomicU64::new(0),
        }
    }
}

impl Counters {
    pub(super) fn ended(&self, rpc: Rpc, used: &CallUsage) {
        let Some(of_rpc) = self.of_rpcs.get(&rpc) else {
            return;
        };
        of_rpc.calls.fetch_add(1, Ordering::Relaxed);
        let total = &of_rpc.used;
        total.add(used.cpu(), used.wall(), used.memory_bytes());
    }

    fn usage(&self) -> BTreeMap<Rpc, RpcUsage> {
        let usage = |of_rpc: &OfRpc| RpcUsage {
            calls: of_rpc.calls.load(Ordering::Relaxed),
            cpu: of_rpc.used.cpu(),
            wall: of_rpc.used.wall(),
            memory_peak_bytes: of_rpc.used.memory_bytes(),
        };
        let all = self.of_rpcs.iter();
        all.map(|(rpc, of_rpc)| (*rpc, usage(of_rpc)))
            .filter(|(_, usage)| usage.calls > 0)
            .collect()
    }
}

impl Driver {
    /// What ended calls used in the plugin, in any version; RPCs without such a call are absent.
    pub fn usage(&self) -> BTreeMap<Rpc, RpcUsage> {
        self.counters.usage()
    }

    /// The places for concurrent calls of the version in use; none: no version is.
    pub fn load(&self) -> Option<Load> {
        let plugin = self.plugin.load();
        plugin.as_ref().map(|plugin| plugin.backend.load())
    }

    /// How many calls were rejected because another one had claimed their object.
    pub fn claims_rejected(&self) -> u64 {
        self.claims.rejected()
    }

    /// The recoveries that have ended.
    pub fn recoveries(&self) -> Recoveries {
        Recoveries {
            succeeded: self.counters.recovered.load(Ordering::Relaxed),
            failed: self.counters.not_recovered.load(Ordering::Relaxed),
        }
    }

    /// Whether this process serves the driver, if processes take turns; none: they do not.
    pub fn leads(&self) -> Option<bool> {
        self.term.load().as_ref().map(|lasts| lasts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_and_memory_keeps_its_peak() {
        let counters = Counters::default();
        assert!(counters.usage().is_empty());
        for (milliseconds, memory_bytes) in [(2, 700), (3, 500)] {
            let used = CallUsage::default();
            let cpu = Duration::from_millis(milliseconds);
            used.add(cpu, cpu * 10, memory_bytes);
            counters.ended(Rpc::RegisterNode, &used);
        }
        let expected = RpcUsage {
            calls: 2,
            cpu: Duration::from_millis(5),
            wall: Duration::from_millis(50),
            memory_peak_bytes: 700,
        };
        let expected = BTreeMap::from([(Rpc::RegisterNode, expected)]);
        assert_eq!(counters.usage(), expected);
    }
}
