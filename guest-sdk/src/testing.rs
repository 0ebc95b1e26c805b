//! A host in the process of the test: `cargo test` then needs neither Wasm nor a node. It replaces everything that a component imports, and exists
//! only outside of Wasm.
//!
//! Each thread has its own host, so tests do not affect one another; begin a test with [`reset`], since a test runner may use a thread twice.
//! Failures are as on the real host, with the same codes. State is kept in memory, and the only grants are those of
//! [`add_pool`], [`http()`], [`set_node_fact`], [`set_fact_of_node`] and [`grant_sealing`]. [`with_storage`] is for a program that is no test.
//!
//! ```
//! use wasmount_guest::{Pool, testing};
//!
//! testing::reset();
//! testing::add_pool("volumes", 1 << 30);
//! let plan = testing::record(|plan| plan.directory(&Pool::named("volumes"), "a")).unwrap();
//! assert_eq!(plan.source.step(), "directory");
//! ```

pub(crate) mod call;
pub(crate) mod http;
pub(crate) mod node_encryption;
pub(crate) mod node_facts;
pub(crate) mod node_iscsi;
pub(crate) mod node_nvme;
pub(crate) mod node_plan;
pub(crate) mod node_rbd;
pub(crate) mod nodes;
pub(crate) mod pool;
pub(crate) mod sealed_secrets;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod storage;

pub use call::LogLine;
pub use http::{http, lose_answer_after, requests};
pub use node_encryption::Luks;
pub use node_facts::set_node_fact;
pub use node_iscsi::{Chap, Iscsi};
pub use node_nvme::{Dhchap, Nvme};
pub use node_plan::{RecordedPlan, Source};
pub use node_rbd::{Cephx, Rbd};
pub use nodes::set_fact_of_node;
pub use sealed_secrets::{grant_sealing, unsealed};
pub use storage::{Pools, State, Storage, with_storage};

use crate::error::Error;
use crate::log::Level;
use crate::plan::Plan;
use crate::secrets::Scope;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

thread_local! {
    static HOST: RefCell<Host> = RefCell::new(Host::default());
}

#[derive(Default)]
struct Host {
    call: call::Call,
    network: http::Network,
    secrets: BTreeMap<(Scope, String), String>,
    state: state::State,
    sessions: BTreeMap<String, Vec<u8>>,
    node_facts: BTreeMap<String, Vec<String>>,
    /// By fact and node.
    facts_of_nodes: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    pools: BTreeMap<String, pool::Tree>,
    /// Records and pools elsewhere, in place of those here.
    storage: Option<Rc<dyn Storage>>,
    sealing: Option<sealed_secrets::Sealed>,
    /// The plan of the current node call; `None` while none runs.
    recording: Option<node_plan::Recording>,
    /// The calls that still succeed, and the error of all after them.
    failure: Option<(usize, Error)>,
}

/// Forgets everything: a new host without pools, settings, secrets and records.
pub fn reset() {
    with(|host| *host = Host::default());
}

/// Grants an empty pool of this size in bytes.
pub fn add_pool(name: &str, total_bytes: u64) {
    let pool = pool::Tree::new(total_bytes);
    with(|host| host.pools.insert(name.to_owned(), pool));
}

/// Removes a grant, with the contents of the pool.
pub fn remove_pool(name: &str) {
    with(|host| host.pools.remove(name));
}

/// Sets one of the backend's settings.
pub fn set_setting(name: &str, value: &str) {
    with(|host| {
        let settings = &mut host.call.settings;
        settings.retain(|(other, _)| other != name);
        settings.push((name.to_owned(), value.to_owned()));
    });
}

/// Sets a secret of the request or of the backend.
pub fn set_secret(scope: Scope, name: &str, value: &str) {
    let named = (scope, name.to_owned());
    with(|host| host.secrets.insert(named, value.to_owned()));
}

/// Forgets what logins yielded, as a new process or a new version does: the next [`crate::session::get`] logs in.
pub fn lose_sessions() {
    with(|host| host.sessions.clear());
}

/// Sets the name of the node; `None`, the default, is a controller away from the nodes.
pub fn set_node_name(name: Option<&str>) {
    with(|host| host.call.node_name = name.map(str::to_owned));
}

/// Sets what is left of the call's budget. With nothing left the call is cancelled. The default is one minute.
pub fn set_remaining(remaining: Duration) {
    with(|host| host.call.remaining = remaining);
}

/// Lets the next `calls` calls of `state`, `pool`, the plan and the network succeed; each call after them fails with `error` and does nothing. So a test can end a
/// call between any two of its effects, as a power cut does. [`mend`] ends it.
pub fn fail_after(calls: usize, error: Error) {
    with(|host| host.failure = Some((calls, error)));
}

/// Ends the failures of [`fail_after`] and [`lose_answer_after`].
pub fn mend() {
    with(|host| {
        host.failure = None;
        host.network.arriving = None;
    });
}

/// From now on a copy in a pool outlasts its call: it is under way and returns `aborted` until [`finish_copies`] or [`lose_copies`].
pub fn delay_copies() {
    each_pool(|pool| pool.copies.is_slow = true);
}

/// Ends the copies that are under way: with their targets, or with an error, which the next call for such a copy returns once.
pub fn finish_copies(outcome: Result<(), Error>) {
    each_pool(|pool| pool.finish_copies(&outcome));
}

/// Forgets the copies that are under way, as when a host is killed.
pub fn lose_copies() {
    each_pool(|pool| pool.copies.under_way.clear());
}

/// Runs a `node_stage` or `node_publish` and returns the recorded plan; an error if the call fails, or if the plan has no source. As on the real
/// host, [`crate::state`] returns `failed-precondition` meanwhile.
pub fn record(call: impl FnOnce(&Plan) -> Result<(), Error>) -> Result<RecordedPlan, Error> {
    with(|host| host.recording = Some(node_plan::Recording::default()));
    let answer = call(&Plan::of_this_call());
    let recording = with(|host| host.recording.take()).unwrap_or_default();
    answer?;
    recording.finish()
}

/// Keys of all records, in order.
pub fn state_keys() -> Vec<String> {
    with(|host| host.state.records.keys().cloned().collect())
}

/// Paths of everything in a pool, in order.
pub fn pool_paths(pool: &str) -> Vec<String> {
    with(|host| {
        let pool = host.pools.get(pool).into_iter();
        pool.flat_map(|pool| pool.nodes.keys().cloned()).collect()
    })
}

/// The quota of a directory of a pool, in bytes.
pub fn quota(pool: &str, path: &str) -> Option<u64> {
    with(|host| host.pools.get(pool)?.get(path)?.quota)
}

/// Permission bits of a directory of a pool.
pub fn mode(pool: &str, path: &str) -> Option<u32> {
    with(|host| host.pools.get(pool)?.get(path).map(|node| node.mode))
}

/// Lines that were logged at this level or a more severe one.
pub fn logged(level: Level) -> Vec<LogLine> {
    with(|host| {
        let lines = host.call.lines.iter();
        lines.filter(|line| line.level >= level).cloned().collect()
    })
}

/// The interface `secrets` in memory. Unlike the host, it does not count uses.
pub(crate) mod secrets {
    use super::{Scope, with};

    pub(crate) fn names(scope: Scope) -> Vec<String> {
        with(|host| {
            let names = host.secrets.keys().filter(|(of, _)| *of == scope);
            names.map(|(_, name)| name.clone()).collect()
        })
    }

    pub(crate) fn get(scope: Scope, name: &str) -> Option<String> {
        with(|host| host.secrets.get(&(scope, name.to_owned())).cloned())
    }
}

fn each_pool(change: impl FnMut(&mut pool::Tree)) {
    with(|host| host.pools.values_mut().for_each(change));
}

fn with<R>(use_host: impl FnOnce(&mut Host) -> R) -> R {
    HOST.with_borrow_mut(use_host)
}

/// A host call that can fail.
fn attempt<R>(call: impl FnOnce(&mut Host) -> Result<R, Error>) -> Result<R, Error> {
    with(|host| {
        if let Some((calls_before, error)) = &mut host.failure {
            match calls_before.checked_sub(1) {
                Some(left) => *calls_before = left,
                None => return Err(error.clone()),
            }
        }
        call(host)
    })
}
