//! Keeps the hosts that a storage system knows in step with the nodes, by the interface `node-register`.
//!
//! ```text
//! nodes, records of the host ──▶ due: which node needs a call ──▶ some calls at a time ──▶ a failed one again, after a pause
//! ```
//!
//! All nodes are registered again by each version and after each start: the calls are idempotent, and no one else knows what the storage system lost.

mod due;
mod ended;

use super::Driver;
use crate::error::Error;
use crate::names::NodeId;
use crate::nodes::Nodes;
use crate::rpc::Rpc;
use crate::services::{Service, ServiceSet};
use crate::text::chain;
use due::{Kept, Present, Step};
use ended::Ended;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Calls at a time. 4: an eighth of what a backend may have by default (`limits.concurrency`), so that the start of a controller with 1,000 nodes leaves
/// room for volumes. With an array that takes half a second for a host, all of them are registered in about two minutes.
const AT_ONCE: usize = 4;
/// How long changes of nodes are gathered. 1 s: a listing of 5,000 nodes is many changes at once, and each is compared with all that is known.
const GATHERING: Duration = Duration::from_secs(1);
/// Pause after the first failure of a node; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses. 5 min: 1,000 nodes are then some calls a second to an array that is out of order.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Pause before the records are read again. 10 s: the store is the disk of the host, or the API server.
const STORE_PAUSE: Duration = Duration::from_secs(10);

/// A node that could not be registered or unregistered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// The name of its Node.
    pub node: String,
    /// Which of the two.
    pub rpc: Rpc,
}

/// The work for one version, in one term of this host.
struct Registrar {
    driver: Arc<Driver>,
    reports: mpsc::Sender<NodeReport>,
    needs_facts: bool,
    nodes: due::Nodes,
    /// As in the records.
    kept: BTreeMap<NodeId, Kept>,
    /// What this version has registered.
    done: BTreeMap<NodeId, Present>,
    failures: BTreeMap<NodeId, Failure>,
    /// Nodes that may need a call.
    queue: VecDeque<NodeId>,
    running: BTreeSet<NodeId>,
    calls: JoinSet<Ended>,
}

/// A node whose last call failed.
struct Failure {
    step: Step,
    /// The pause before the next call.
    pause: Duration,
    /// None: it is in the queue.
    retry_at: Option<Instant>,
    reason: String,
}

impl Driver {
    /// Registers nodes while this host works and its plugin exports the interface; never returns. A report that finds no room in the channel is in the
    /// log only.
    pub async fn register_nodes(
        self: Arc<Self>,
        nodes: Arc<dyn Nodes>,
        reports: mpsc::Sender<NodeReport>,
    ) {
        let (mut offers, mut terms) = (self.offers(), self.terms.subscribe());
        loop {
            let registers = |offer: &ServiceSet| offer.has(Service::NodeRegister);
            let is_offered = offers.borrow_and_update().as_ref().is_some_and(registers);
            terms.borrow_and_update();
            let work = async {
                match is_offered && self.works() {
                    true => self.registers_now(nodes.as_ref(), &reports).await,
                    false => pending().await,
                }
            };
            // The senders live in `self`.
            tokio::select! {
                () = work => {}
                _ = offers.changed() => {}
                _ = terms.changed() => {}
            }
        }
    }

    /// Returns when it has to begin anew.
    async fn registers_now(
        self: &Arc<Self>,
        nodes: &dyn Nodes,
        reports: &mpsc::Sender<NodeReport>,
    ) {
        match self.registered_nodes().await {
            Ok(kept) => {
                let registrar = Registrar {
                    driver: Arc::clone(self),
                    reports: reports.clone(),
                    needs_facts: self.policy_now(|policy| policy.reads_nodes),
                    nodes: due::Nodes::default(),
                    kept,
                    done: BTreeMap::new(),
                    failures: BTreeMap::new(),
                    queue: VecDeque::new(),
                    running: BTreeSet::new(),
                    calls: JoinSet::new(),
                };
                registrar.run(nodes).await;
            }
            Err(error) => {
                let (driver, reason) = (self.name(), chain(&error));
                tracing::warn!(%driver, reason, "nodes are not registered with the storage system: retrying");
                sleep(STORE_PAUSE).await;
            }
        }
    }
}

impl Registrar {
    /// Returns only if a task was lost.
    async fn run(mut self, nodes: &dyn Nodes) {
        let mut changes = nodes.changes();
        let mut list_at = Some(Instant::now());
        loop {
            self.begin_calls();
            let retry_at = self
                .failures
                .values()
                .filter_map(|failure| failure.retry_at);
            let retry_at = retry_at.min();
            tokio::select! {
                Some(ended) = self.calls.join_next() => match ended {
                    Ok(ended) => self.end(ended),
                    Err(_) => return,
                },
                () = at(list_at) => {
                    list_at = None;
                    let list = nodes.list(self.driver.name()).await;
                    self.nodes = due::Nodes::new(list);
                    let ids: BTreeSet<_> = self.nodes.ids().chain(self.kept.keys()).collect();
                    self.failures.retain(|id, _| ids.contains(id));
                    self.queue = ids.into_iter().cloned().collect();
                }
                // Without its sender nothing changes any more.
                Ok(()) = changes.changed(), if list_at.is_none() => {
                    list_at = Some(Instant::now() + GATHERING);
                }
                () = at(retry_at) => self.retry(Instant::now()),
            }
        }
    }

    fn begin_calls(&mut self) {
        while self.running.len() < AT_ONCE
            && let Some(id) = self.queue.pop_front()
        {
            // It is looked at again when its call has ended.
            if self.running.contains(&id) {
                continue;
            }
            let (kept, done) = (self.kept.get(&id), self.done.get(&id));
            let Some(step) = self.nodes.step(&id, kept, done, self.needs_facts) else {
                self.failures.remove(&id);
                continue;
            };
            if let Some(failure) = self.failures.get_mut(&id) {
                let is_same = failure.step == step;
                if is_same && failure.retry_at.is_some() {
                    continue;
                }
                failure.retry_at = None;
            }
            let is_kept = matches!(&step, Step::Register(present) if kept == Some(&present.kept));
            self.running.insert(id.clone());
            let driver = Arc::clone(&self.driver);
            self.calls.spawn(Ended::of(driver, id, step, is_kept));
        }
    }

    fn end(&mut self, ended: Ended) {
        let Ended {
            id,
            step,
            is_kept,
            result,
        } = ended;
        self.running.remove(&id);
        match (&step, is_kept) {
            (Step::Register(present), true) => {
                drop(self.kept.insert(id.clone(), present.kept.clone()))
            }
            (Step::Unregister(_), false) => drop(self.kept.remove(&id)),
            _ => {}
        }
        let (driver, rpc, node) = (self.driver.name(), step.rpc(), step.node());
        match result {
            Ok(()) => {
                match self.failures.remove(&id) {
                    Some(_) => {
                        tracing::info!(%driver, %id, node, %rpc, "the call for a node succeeded after all")
                    }
                    None => {
                        tracing::debug!(%driver, %id, node, %rpc, "the call for a node succeeded")
                    }
                }
                match step {
                    Step::Register(present) => self.done.insert(id.clone(), present),
                    Step::Unregister(_) => self.done.remove(&id),
                };
            }
            Err(error) => {
                let reason = chain(&error);
                let before = self.failures.get(&id);
                let is_known = before.is_some_and(|before| before.reason == reason);
                if !is_known && !passes(&error) {
                    // The same outage is told once, not for each of a thousand nodes.
                    let mut others = self.failures.values();
                    match others.any(|other| other.reason == reason) {
                        true => {
                            tracing::debug!(%driver, %id, node, %rpc, reason, "the call for a node failed: retrying")
                        }
                        false => {
                            tracing::warn!(%driver, %id, node, %rpc, reason, "the call for a node failed: retrying")
                        }
                    }
                    let node = node.to_owned();
                    // Fails when the listener is slow.
                    let _ = self.reports.try_send(NodeReport { node, rpc });
                }
                let pause = before
                    .filter(|before| before.step == step)
                    .map_or(FIRST_PAUSE, |before| before.pause);
                let retry_at = Instant::now() + jittered(pause, RandomState::new().hash_one(&id));
                let failure = Failure {
                    step,
                    pause: (pause * 2).min(LONGEST_PAUSE),
                    retry_at: Some(retry_at),
                    reason,
                };
                self.failures.insert(id.clone(), failure);
            }
        }
        // The node may have changed meanwhile.
        self.queue.push_back(id);
    }

    fn retry(&mut self, now: Instant) {
        for (id, failure) in &mut self.failures {
            if failure.retry_at.is_some_and(|at| at <= now) {
                failure.retry_at = None;
                self.queue.push_back(id.clone());
            }
        }
    }
}

/// Returns at that time; never if there is none.
async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}

/// A part of the pause between its half and the whole, so that nodes that failed together are not tried again together.
fn jittered(pause: Duration, random: u64) -> Duration {
    let half = pause / 2;
    half + half.mul_f64(random as f64 / u64::MAX as f64)
}

/// Whether the failure says nothing about nodes or plugin: an earlier version still registers the node, or this host is about to stop.
fn passes(error: &Error) -> bool {
    matches!(
        error,
        Error::InFlight { .. } | Error::Quiesced | Error::Standby | Error::ShuttingDown
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_shortened_by_half_at_most() {
        let pause = Duration::from_secs(8);
        assert_eq!(jittered(pause, 0), Duration::from_secs(4));
        assert_eq!(jittered(pause, u64::MAX), pause);
        let middle = jittered(pause, u64::MAX / 2);
        assert!((Duration::from_secs(4)..pause).contains(&middle));
    }

    #[test]
    fn only_failures_of_nodes_or_plugin_are_reported() {
        let subject = "node a".to_owned();
        assert!(passes(&Error::InFlight { subject }));
        assert!(passes(&Error::Standby));
        let rpc = Rpc::RegisterNode;
        assert!(!passes(&Error::Lost { rpc }));
        let reason = "the backend is drained".to_owned();
        assert!(!passes(&Error::NoNewWork { reason }));
    }
}
