//! Facts of the node, and of other nodes. What OpenStack tells is found out when a plugin asks first, and kept for the life of this process; the mounter
//! tells the others, and hosts of other nodes theirs.

use crate::host_error::HostError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use wasmount_core::code::Code;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::node_fact::{FactValues, Instance, METADATA_SERVICE, NodeFact};
use wasmount_core::nodes::{Facts, Nodes, NodesError};
use wasmount_network::Network;

/// What this process knows of its node. Clones share it.
#[derive(Clone)]
pub struct NodeFacts {
    source: Source,
    nodes: Option<Arc<dyn Nodes>>,
}

#[derive(Clone)]
enum Source {
    Given(BTreeMap<NodeFact, Vec<String>>),
    Node {
        network: Network,
        instance: Arc<OnceCell<Instance>>,
    },
}

impl NodeFacts {
    /// Those of the node on which this process runs.
    pub fn of_node(network: Network) -> Self {
        let instance = Arc::default();
        Self {
            source: Source::Node { network, instance },
            nodes: None,
        }
    }

    /// The same, and where the controller finds those of all nodes.
    pub fn with_nodes(self, nodes: Arc<dyn Nodes>) -> Self {
        Self {
            nodes: Some(nodes),
            ..self
        }
    }

    /// These and no others, of this node and of each other one.
    pub fn given(values: BTreeMap<NodeFact, Vec<String>>) -> Self {
        Self {
            source: Source::Given(values),
            nodes: None,
        }
    }

    /// Those of these facts that are known now, for other hosts. What is wrong with the others is in the log.
    pub async fn known(
        &self,
        facts: &BTreeSet<NodeFact>,
        driver: &DriverName,
        mounter: &Arc<dyn Mounter>,
        deadline: Instant,
    ) -> Facts {
        let mut known = Facts::new();
        for fact in facts {
            let values = self.get(*fact, driver, mounter, deadline).await;
            let values = values.map_err(|error| error.message).and_then(|values| {
                FactValues::try_from(values).map_err(|invalid| invalid.to_string())
            });
            match values {
                Ok(values) => drop(known.insert(*fact, values)),
                Err(reason) => {
                    tracing::debug!(%driver, fact = fact.name(), reason, "a fact of the node is not told")
                }
            }
        }
        known
    }

    /// The values of a fact of any node, for the controller.
    pub(crate) async fn of(
        &self,
        node: &NodeId,
        fact: NodeFact,
        driver: &DriverName,
        deadline: Instant,
    ) -> Result<Vec<String>, HostError> {
        if let Source::Given(values) = &self.source {
            return given(values, fact);
        }
        let unavailable = |reason: &str| NodesError::Unavailable {
            node: node.clone(),
            reason: reason.to_owned(),
        };
        let told = match &self.nodes {
            Some(nodes) => timeout_at(deadline, nodes.facts(driver, node))
                .await
                .unwrap_or_else(|_| Err(unavailable("the API server does not answer"))),
            None => Err(unavailable(
                "this host reaches no API server, by which hosts of nodes tell them; give it --kubeconfig, or run it in a pod",
            )),
        };
        let values = told.and_then(|mut facts| {
            facts.remove(&fact).ok_or_else(|| {
                unavailable(
                    "its host has not told this one; the log of that host says why, at --log debug",
                )
            })
        });
        values.map(FactValues::into_vec).map_err(|error| {
            let code = match error {
                NodesError::NotFound { .. } => Code::NotFound,
                NodesError::Unavailable { .. } => Code::Unavailable,
            };
            HostError::new(code, format!("the fact `{}`: {error}", fact.name()))
        })
    }

    /// The values of a fact. One call finds out; others wait for it. The config drive is read only if the metadata service does not tell, since a pod that
    /// writes a volume could forge a drive.
    pub(crate) async fn get(
        &self,
        fact: NodeFact,
        driver: &DriverName,
        mounter: &Arc<dyn Mounter>,
        deadline: Instant,
    ) -> Result<Vec<String>, HostError> {
        let (network, instance) = match &self.source {
            Source::Given(values) => return given(values, fact),
            Source::Node { network, instance } => (network, instance),
        };
        if !fact.is_of_instance() {
            // Read anew: an administrator may change it.
            let values = mounter.node_fact(driver.clone(), fact).await;
            return values.map(FactValues::into_vec).map_err(|error| {
                let reason = format!(
                    "the fact `{}` of the node is not known: {error}",
                    fact.name()
                );
                HostError::new(Code::Unavailable, reason)
            });
        }
        let known = instance.get_or_try_init(|| async {
            let left = deadline.saturating_duration_since(Instant::now());
            // The rest is for the drive.
            let no_metadata = match network.metadata(Instant::now() + left / 2).await {
                Ok(instance) => return Ok(instance),
                Err(error) => error,
            };
            let no_drive = match mounter.config_drive(driver.clone()).await {
                Ok(instance) => {
                    tracing::info!(%no_metadata, "the config drive tells what the node is");
                    return Ok(instance);
                }
                Err(error) => error,
            };
            let reason = format!(
                "it is not known which instance of a cloud this node is: {no_metadata}; {no_drive}; let the node reach the metadata service at \
                 {METADATA_SERVICE}, or give the instance a config drive"
            );
            Err(HostError::new(Code::Unavailable, reason))
        });
        Ok(known.await?.values(fact))
    }
}

fn given(
    values: &BTreeMap<NodeFact, Vec<String>>,
    fact: NodeFact,
) -> Result<Vec<String>, HostError> {
    values.get(&fact).cloned().ok_or_else(|| {
        let reason = format!(
            "the fact `{0}` of the node is not given; give it: --node-fact {0}=VALUE",
            fact.name()
        );
        HostError::new(Code::Unavailable, reason)
    })
}
