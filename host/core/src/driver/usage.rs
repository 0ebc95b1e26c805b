//! What the calls of a driver used since the start of the host, by RPC, and the other counts that only metrics read.
//!
//! A call is added when it ends.

use super::Driver;
use crate::backend::Load;
use crate::call::Used;
use crate::mutex::lock;
use crate::rpc::Rpc;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The counters of a driver.
#[derive(Default)]
pub(super) struct Counters {
    of_rpcs: Mutex<BTreeMap<Rpc, RpcUsage>>,
    pub(super) recoveries: Mutex<Recoveries>,
}

/// What the calls of one RPC used in the plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RpcUsage {
    /// How many used the plugin.
    pub calls: u64,
    /// What they used.
    pub used: Used,
}

/// Volumes whose unfinished work an earlier host had left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// Volumes whose work was finished or undone.
    pub succeeded: u64,
    /// Volumes whose work could be neither finished nor undone.
    pub failed: u64,
}

impl Counters {
    pub(super) fn ended(&self, rpc: Rpc, used: Used) {
        let mut all = lock(&self.of_rpcs);
        let of_rpc = all.entry(rpc).or_default();
        of_rpc.calls += 1;
        of_rpc.used.include(used);
    }
}

impl Driver {
    /// What ended calls used in the plugin, in any version; RPCs without such a call are absent.
    pub fn usage(&self) -> BTreeMap<Rpc, RpcUsage> {
        lock(&self.counters.of_rpcs).clone()
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
        *lock(&self.counters.recoveries)
    }

    /// Whether this process serves the driver, if processes take turns; none: they do not.
    pub fn leads(&self) -> Option<bool> {
        self.term.load().as_ref().map(|lasts| lasts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_add_up_and_memory_keeps_its_peak() {
        let counters = Counters::default();
        let used = |milliseconds, memory_bytes| Used {
            cpu: Duration::from_millis(milliseconds),
            wall: Duration::from_millis(10 * milliseconds),
            memory_bytes,
        };
        counters.ended(Rpc::RegisterNode, used(2, 700));
        counters.ended(Rpc::RegisterNode, used(3, 500));
        let expected = RpcUsage {
            calls: 2,
            used: used(5, 700),
        };
        let expected = BTreeMap::from([(Rpc::RegisterNode, expected)]);
        assert_eq!(*lock(&counters.of_rpcs), expected);
    }
}
