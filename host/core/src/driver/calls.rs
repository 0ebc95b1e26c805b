//! The running calls of one version of a plugin: their number, RPC and duration.

use crate::rpc::Rpc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The running calls of one version.
#[derive(Debug, Clone, Default)]
pub struct RunningCalls(Arc<watch::Sender<Running>>);

/// A call that runs in a plugin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningCall {
    /// The RPC.
    pub rpc: Rpc,
    /// Its duration so far.
    pub since: Duration,
}

/// A call is counted during the lifetime of its ticket.
pub(super) struct Ticket {
    calls: RunningCalls,
    number: u64,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    calls: BTreeMap<u64, (Rpc, Instant)>,
}

impl RunningCalls {
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

    /// Their number.
    pub fn count(&self) -> usize {
        self.0.borrow().calls.len()
    }

    /// Returns when the last running call has ended.
    pub async fn ended(&self) {
        let mut running = self.0.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
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
