//! Facts of the node: found out when a plugin asks for one first, and kept for the life of this process.

use crate::host_error::HostError;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use wasmount_core::code::Code;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{Instance, METADATA_SERVICE, NodeFact};
use wasmount_network::Network;

/// What this process knows of its node. Clones share it.
#[derive(Clone)]
pub struct NodeFacts(Source);

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
        Self(Source::Node { network, instance })
    }

    /// These and no others.
    pub fn given(values: BTreeMap<NodeFact, Vec<String>>) -> Self {
        Self(Source::Given(values))
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
        let (network, instance) = match &self.0 {
            Source::Given(values) => {
                let values = values.get(&fact).cloned();
                return values.ok_or_else(|| {
                    let reason = format!(
                        "the fact `{0}` of the node is not given; give it: --node-fact {0}=VALUE",
                        fact.name()
                    );
                    HostError::new(Code::Unavailable, reason)
                });
            }
            Source::Node { network, instance } => (network, instance),
        };
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
