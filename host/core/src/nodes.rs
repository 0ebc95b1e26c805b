//! What the hosts of all nodes tell the controller of a driver about their nodes.
//!
//! This module must not know how it travels.

use crate::names::{DriverName, NodeId};
use crate::node_fact::{FactValues, NodeFact};
use async_trait::async_trait;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Facts of one node. One that is granted and absent is not told yet.
pub type Facts = BTreeMap<NodeFact, FactValues>;

/// A Node of the cluster, as far as it concerns one driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedNode {
    /// Distinguishes it from an earlier Node of the same name.
    pub uid: Option<String>,
    /// The id that the driver has there; none: it has none now, as while its host restarts.
    pub id: Option<NodeId>,
    /// None: its host has not told any.
    pub facts: Option<Facts>,
}

/// All Nodes of the cluster, by name.
pub type NodeList = BTreeMap<String, ListedNode>;

/// Why the facts of a node are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// No node of the driver has this id.
    #[error("no node of driver {driver} has the id `{node}`")]
    NotFound {
        /// The driver.
        driver: DriverName,
        /// The id.
        node: NodeId,
    },
    /// The reason, with what to do.
    #[error("the facts of the node `{node}` are not known: {reason}")]
    Unavailable {
        /// The id.
        node: NodeId,
        /// The reason.
        reason: String,
    },
}

/// Where the controller finds facts of nodes.
#[async_trait]
pub trait Nodes: Send + Sync + 'static {
    /// What the host of a node told last.
    async fn facts(&self, driver: &DriverName, node: &NodeId) -> Result<Facts, NodesError>;
    /// All nodes. Waits until they are known.
    async fn list(&self, driver: &DriverName) -> NodeList;
    /// Notifies of what [`Nodes::list`] may show from now on. Call it in a runtime.
    fn changes(&self) -> watch::Receiver<()>;
}
