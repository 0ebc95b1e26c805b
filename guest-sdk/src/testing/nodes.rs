//! The interface `nodes` in memory. A thread of a test has no controller service, so each call may read facts of nodes.

use super::{attempt, with};
use crate::error::Error;

/// Has a node tell a fact, and grants this fact of all nodes. With no values that node has no such fact. A fact that no node tells is answered
/// `permission-denied`, one that another node tells `unavailable`, and a node that tells nothing is `not-found`.
pub fn set_fact_of_node(node: &str, name: &str, values: &[&str]) {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    with(|host| {
        let nodes = host.facts_of_nodes.entry(name.to_owned()).or_default();
        nodes.insert(node.to_owned(), values);
    });
}

pub(crate) fn facts(node: &str, name: &str) -> Result<Vec<String>, Error> {
    attempt(|host| {
        let nodes = host.facts_of_nodes.get(name).ok_or_else(|| {
            Error::permission_denied(format!(
                "the fact `{name}` of the node is not granted; add it to grants.nodes"
            ))
        })?;
        if let Some(values) = nodes.get(node) {
            return Ok(values.clone());
        }
        let mut all = host.facts_of_nodes.values();
        Err(match all.any(|nodes| nodes.contains_key(node)) {
            true => Error::unavailable(format!("the node `{node}` has not told `{name}`")),
            false => Error::not_found(format!("no node has the id `{node}`")),
        })
    })
}
