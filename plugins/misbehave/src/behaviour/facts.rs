//! Reads facts of this node and of others that it may not read, or that there are not.

use super::{Deed, Table};
use crate::controller::REGISTERED;
use wasmount_guest::{Error, node_facts, nodes, state};

pub const DEEDS: Table<Deed> = &[
    ("fact-of-controller", || node_facts::zone().map(drop)),
    ("fact-not-granted", || node_facts::zone().map(drop)),
    ("fact-unknown", || node_facts::get("iqn\u{1b}").map(drop)),
    ("nodes-of-node", || nodes::iqn("node-1").map(drop)),
    ("nodes-not-granted", || nodes::iqn("node-1").map(drop)),
    ("nodes-told", || told("iqn")),
    ("nqn-told", || told("nqn")),
    ("multipath-told", || told("multipath")),
    ("nodes-registered", || {
        let registered = state::scan::<String>(REGISTERED, None, 100)?;
        let hosts = registered.iter().map(|(key, iqn)| {
            let node = key.strip_prefix(REGISTERED).unwrap_or_default();
            format!("{node}={}", iqn.value)
        });
        let hosts: Vec<_> = hosts.collect();
        Err(Error::failed_precondition(format!(
            "registered: [{}]",
            hosts.join(", ")
        )))
    }),
    ("nodes-unknown", || {
        nodes::facts("node-1", "serial").map(drop)
    }),
];

/// Fails with what a node told.
fn told(fact: &str) -> Result<(), Error> {
    let told = nodes::facts("test-node", fact)?;
    Err(Error::failed_precondition(format!("told: {told:?}")))
}
