//! The interface `node-facts` in memory. A thread of a test has no node service, so each call may read facts.

use super::{attempt, with};
use crate::error::Error;

/// Grants a fact of the node, with its values; none: this node has no such fact. A fact that is not set is answered `permission-denied`.
pub fn set_node_fact(name: &str, values: &[&str]) {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    with(|host| host.node_facts.insert(name.to_owned(), values));
}

pub(crate) fn get(name: &str) -> Result<Vec<String>, Error> {
    attempt(|host| {
        let values = host.node_facts.get(name).cloned();
        values.ok_or_else(|| {
            Error::permission_denied(format!(
                "the fact `{name}` of the node is not granted; add it to grants.nodeFacts"
            ))
        })
    })
}
