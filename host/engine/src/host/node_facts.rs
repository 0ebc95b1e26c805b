//! Import `node-facts`: what the document grants of it, for calls of the node service.

use super::Answer;
use crate::bindings::imported::node_facts::Host;
use crate::host_error::HostError;
use crate::http::ANSWER_TIME;
use crate::invocation::Invocation;
use std::sync::Arc;
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::text::shortened;

/// Longest unknown name that an error repeats, in bytes: above every name that there may be.
const NAME_BYTES: usize = 64;

impl Host for Invocation {
    async fn get(&mut self, name: String) -> Answer<Vec<String>> {
        if self.call.rpc.service() != "Node" {
            let reason = "facts of the node are available in calls of the node service only: a controller may run on any node";
            return Err(HostError::new(Code::FailedPrecondition, reason));
        }
        let Some(fact) = NodeFact::parse(&name) else {
            let blame = Blame::argument(&name);
            let reason = format!(
                "`{}` is no fact of the node that this host knows; known are {}",
                shortened(name, NAME_BYTES).escape_debug(),
                NodeFact::names()
            );
            let refused = HostError::new(Code::InvalidArgument, reason);
            return Err(refused.blaming(Code::Internal, blame));
        };
        if !self.parts.granted_facts.contains(&fact) {
            let reason =
                format!("the fact `{name}` of the node is not granted; add it to grants.nodeFacts");
            let refused = HostError::new(Code::PermissionDenied, reason);
            let blame = Blame::Of(Owner::Administrator);
            return Err(refused.blaming(Code::PermissionDenied, blame));
        }
        let (parts, deadline) = (Arc::clone(&self.parts), self.call.deadline);
        let deadline = deadline.checked_sub(ANSWER_TIME).unwrap_or(deadline);
        self.waits_for_storage = true;
        let values = parts
            .node_facts
            .get(fact, &parts.driver, &parts.mounter, deadline)
            .await;
        self.waits_for_storage = false;
        values
    }
}
