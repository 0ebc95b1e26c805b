//! Calls that ask one version of a plugin: how many, which, and for how long.

use crate::rpc::Rpc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Those of one version.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<watch::Sender<Running>>);

/// A call that asks a plugin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningCall {
    /// Which.
    pub rpc: Rpc,
    /// For how long.
    pub since: Duration,
}

/// A call is counted for as long as this lives.
pub(super) struct Ticket {
    calls: Calls,
    number: u64,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    calls: BTreeMap<u64, (Rpc, Instant)>,
}

impl Calls {
    pub(super) fn begin(&self, rpc: Rpc) -> Ticket {
        let mut number = 0;
        self.0.send_modify(|running| {
            number = running.next;
            running.next += 1;
            running.calls.insert(number, (rpc, Instant::now()));
        });
        Ticket {
            calls: self.clone(),
            number,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.0.borrow().calls.len()
    }

    /// Returns when the last of them has ended.
    pub(super) async fn ended(&self) {
        let mut running = self.0.subscribe();
        // Its sender is here.
        let _ = running.wait_for(|running| running.calls.is_empty()).await;
    }

    pub(super) fn running(&self) -> Vec<RunningCall> {
        let running = self.0.borrow();
        let calls = running.calls.values().map(|(rpc, at)| RunningCall {
            rpc: *rpc,
            since: at.elapsed(),
        });
        calls.collect()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.calls.0.send_modify(|running| {
            running.calls.remove(&self.number);
        });
    }
}
