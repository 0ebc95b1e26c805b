//! One call for a node, and the record of it.

use super::due::{Kept, Step};
use crate::call::Incoming;
use crate::claims::{Subject, claims};
use crate::driver::Driver;
use crate::driver::service::read_record;
use crate::error::Error;
use crate::names::NodeId;
use crate::rpc::Rpc;
use crate::state::Expect;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Before the node id, in the key of a record of the host's keyspace.
const KEY_PREFIX: &str = "registered-node/";

/// A call that has ended.
pub(super) struct Ended {
    pub(super) id: NodeId,
    pub(super) step: Step,
    /// Whether the record is written.
    pub(super) is_kept: bool,
    pub(super) result: Result<(), Error>,
}

impl Ended {
    /// Makes the call of a step. A node is recorded before it is registered, and forgotten after it was unregistered.
    pub(super) async fn of(driver: Arc<Driver>, id: NodeId, step: Step, mut is_kept: bool) -> Self {
        let result = async {
            match &step {
                Step::Register(present) => {
                    if !is_kept {
                        driver.keep_record(&key_of(&id), &present.kept).await?;
                        is_kept = true;
                    }
                }
                Step::Unregister(_) => is_kept = true,
            }
            driver.call_for_node(step.rpc(), &id).await?;
            if let Step::Unregister(_) = step {
                driver.forget_registered(&id).await?;
                is_kept = false;
            }
            Ok(())
        };
        let result = result.await;
        Self {
            id,
            step,
            is_kept,
            result,
        }
    }
}

impl Driver {
    /// The nodes that were registered by any version, on any host.
    pub(super) async fn registered_nodes(&self) -> Result<BTreeMap<NodeId, Kept>, Error> {
        let mut kept = BTreeMap::new();
        for entry in self.records(KEY_PREFIX).await? {
            let id = entry.key.strip_prefix(KEY_PREFIX).unwrap_or_default();
            if let Ok(id) = NodeId::parse("node id", id) {
                kept.insert(id, read_record(&entry.value)?);
            }
        }
        Ok(kept)
    }

    async fn forget_registered(&self, id: &NodeId) -> Result<(), Error> {
        let (space, key) = (self.own_keys(), key_of(id));
        self.state.remove(&space, &key, Expect::Any).await?;
        Ok(self.state.sync().await?)
    }

    /// Calls the plugin, as a client calls an RPC.
    async fn call_for_node(self: &Arc<Self>, rpc: Rpc, id: &NodeId) -> Result<(), Error> {
        let incoming = Incoming {
            request_id: rpc.name().to_owned(),
            subject: Some(id.to_string()),
            ..Incoming::default()
        };
        let subject = Subject {
            node: Some(id),
            ..Subject::default()
        };
        let id = id.clone();
        self.run(rpc, incoming, claims(rpc, subject), |work| async move {
            let backend = work.backend()?;
            let answer = match rpc {
                Rpc::UnregisterNode => backend.unregister_node(&work.call, id).await,
                _ => backend.register_node(&work.call, id).await,
            };
            Ok(answer?)
        })
        .await
    }
}

fn key_of(id: &NodeId) -> String {
    format!("{KEY_PREFIX}{id}")
}
