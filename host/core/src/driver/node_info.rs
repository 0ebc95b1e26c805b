//! NodeGetInfo. Apart because its answer outlives plugins and processes: Kubernetes keeps node id and topology in CSINode, where neither
//! may change, and kubelet asks before the plugin may be there.
//!
//! What the backend said first is kept in the host's keyspace and stands; only the volume limit follows the backend.

use super::work::Work;
use super::{Driver, NodeInfo};
use crate::backend::NodeDescription;
use crate::call::Incoming;
use crate::capabilities::PluginCapability;
use crate::error::Error;
use crate::names::NodeId;
use crate::rpc::Rpc;
use crate::services::Service;
use crate::state::{Expect, Keyspace, KeyspaceOwner, Outcome, StateError};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Key of the kept description in the host's keyspace.
const KEY: &str = "node-info";

/// A kept description. An absent id stands for the host's, which the administrator may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptNode {
    id: Option<NodeId>,
    max_volumes: Option<u64>,
    topology: Option<Topology>,
}

impl Driver {
    /// NodeGetInfo: from memory after a plugin's first answer. Where the plugin is missing or fails, what was kept earlier stands.
    pub async fn node_get_info(self: &Arc<Self>, incoming: Incoming) -> Result<NodeInfo, Error> {
        self.read(Rpc::NodeGetInfo, incoming, |work| async move {
            let driver = &work.driver;
            let kept = match work.said_of_node().await {
                Ok(said) => said,
                Err(error) => driver.kept_node().await?.ok_or(error)?,
            };
            Ok(driver.as_node_info(kept))
        })
        .await
    }

    fn as_node_info(&self, kept: KeptNode) -> NodeInfo {
        let hides_topology = self
            .config
            .hidden
            .hides(PluginCapability::VolumeAccessibilityConstraints.name());
        NodeInfo {
            id: kept.id.unwrap_or_else(|| self.config.node_id.clone()),
            max_volumes: kept.max_volumes,
            topology: kept.topology.filter(|_| !hides_topology),
        }
    }

    fn own_keys(&self) -> Keyspace {
        Keyspace {
            driver: self.config.name.clone(),
            owner: KeyspaceOwner::Host,
        }
    }

    async fn kept_node(&self) -> Result<Option<KeptNode>, Error> {
        match self.state.get(&self.own_keys(), KEY).await? {
            Some(entry) => Ok(Some(read(&entry.value)?)),
            None => Ok(None),
        }
    }

    /// Keeps a description durably; what was kept first wins, but for the volume limit.
    async fn keep_node(&self, said: KeptNode) -> Result<KeptNode, Error> {
        let space = self.own_keys();
        let (kept, expect) = match self.state.get(&space, KEY).await? {
            None => (said, Expect::Absent),
            Some(entry) => {
                let kept = read(&entry.value)?;
                if (&kept.id, &kept.topology) != (&said.id, &said.topology) {
                    tracing::warn!(
                        "node-info names another id or topology than before: the first ones stand, since CSINode cannot change them"
                    );
                }
                if kept.max_volumes == said.max_volumes {
                    return Ok(kept);
                }
                let max_volumes = said.max_volumes;
                (
                    KeptNode {
                        max_volumes,
                        ..kept
                    },
                    Expect::Revision(entry.revision),
                )
            }
        };
        match self.state.put(&space, KEY, write(&kept)?, expect).await? {
            Outcome::Done(_) => {
                self.state.sync().await?;
                Ok(kept)
            }
            Outcome::Conflict(Some(entry)) => read(&entry.value),
            Outcome::Conflict(None) => Ok(kept),
        }
    }
}

impl Work {
    async fn said_of_node(&self) -> Result<KeptNode, Error> {
        let Some(plugin) = self.plugin() else {
            return Err(self.driver.no_plugin());
        };
        let ask = || async { self.driver.keep_node(self.ask_node().await?).await };
        plugin.node.get_or_try_init(ask).await.cloned()
    }

    async fn ask_node(&self) -> Result<KeptNode, Error> {
        let backend = self.backend()?;
        let NodeDescription {
            id,
            max_volumes,
            topology,
        } = if backend.offer().has(Service::NodeInfo) {
            backend.node_info(&self.call).await?
        } else {
            NodeDescription::default()
        };
        Ok(KeptNode {
            id,
            max_volumes,
            topology,
        })
    }
}

fn read(value: &[u8]) -> Result<KeptNode, Error> {
    serde_json::from_slice(value).map_err(|error| failed("read the kept node description", error))
}

fn write(kept: &KeptNode) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(kept).map_err(|error| failed("write the kept node description", error))
}

fn failed(operation: &'static str, error: serde_json::Error) -> Error {
    Error::State(StateError::Failed {
        operation,
        source: Box::new(error),
    })
}
