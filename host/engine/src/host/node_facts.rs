//! Imports `node-facts` and `nodes`: what the document grants of them, for calls of the node service and of the controller service.

use super::Answer;
use crate::bindings::imported::{node_facts, nodes};
use crate::host_error::HostError;
use crate::http::last_wait;
use crate::invocation::Invocation;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::names::NodeId;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::text::shortened;

/// Longest unknown name that an error repeats, in bytes: above every name that there may be.
const NAME_BYTES: usize = 64;

impl node_facts::Host for Invocation {
    async fn get(&mut self, name: String) -> Answer<Vec<String>> {
        if self.call.rpc.service() != "Node" {
            let reason = "facts of the node are available in calls of the node service only: a controller may run on any node";
            return Err(HostError::new(Code::FailedPrecondition, reason));
        }
        let fact = granted(name, &self.parts.granted_facts, "nodeFacts")?;
        let (parts, deadline) = (Arc::clone(&self.parts), last_wait(&self.call));
        let facts = &parts.node_facts;
        let values = pin!(facts.get(fact, &parts.driver, &parts.mounter, deadline));
        self.waiting(values).await
    }
}

impl nodes::Host for Invocation {
    async fn facts(&mut self, node: String, name: String) -> Answer<Vec<String>> {
        if !self.call.rpc.is_of_controller() {
            let reason =
                "facts of other nodes are available in calls of the controller service only";
            return Err(HostError::new(Code::FailedPrecondition, reason));
        }
        let fact = granted(name, &self.parts.granted_of_nodes, "nodes")?;
        let node = NodeId::parse("node id", node).map_err(|invalid| {
            HostError::rejected(invalid.to_string(), Blame::Of(Owner::Plugin))
        })?;
        let (parts, deadline) = (Arc::clone(&self.parts), last_wait(&self.call));
        let facts = &parts.node_facts;
        let values = pin!(facts.of(&node, fact, &parts.driver, deadline));
        self.waiting(values).await
    }
}

/// The fact of a name, if this key of the grants has it.
fn granted(name: String, granted: &BTreeSet<NodeFact>, key: &str) -> Answer<NodeFact> {
    let Some(fact) = NodeFact::parse(&name) else {
        let blame = Blame::argument(&name);
        let reason = format!(
            "`{}` is no fact of the node that this host knows; known are {}",
            shortened(name, NAME_BYTES).escape_debug(),
            NodeFact::names()
        );
        return Err(HostError::rejected(reason, blame));
    };
    if !granted.contains(&fact) {
        let reason =
            format!("the fact `{name}` of the node is not granted; add it to grants.{key}");
        let refused = HostError::new(Code::PermissionDenied, reason);
        let blame = Blame::Of(Owner::Administrator);
        return Err(refused.blaming(Code::PermissionDenied, blame));
    }
    Ok(fact)
}
