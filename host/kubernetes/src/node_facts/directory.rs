//! Reads the facts of nodes, for a controller.

use super::csi_nodes::{CsiNodes, Registered};
use super::{FactsObject, name, resource};
use crate::error::KubernetesError;
use crate::request::answered;
use async_trait::async_trait;
use kube::api::Api;
use kube::{Client, ResourceExt};
use std::sync::OnceLock;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::nodes::{Facts, Nodes, NodesError};

/// The facts that hosts of nodes told the API server.
pub struct KubernetesNodes {
    client: Client,
    csi_nodes: OnceLock<CsiNodes>,
}

impl KubernetesNodes {
    /// Sends no request before the first question: most plugins ask none.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            csi_nodes: OnceLock::new(),
        }
    }

    async fn told(&self, driver: &DriverName, node: &str) -> Result<Told, KubernetesError> {
        let api = Api::<FactsObject>::all_with(self.client.clone(), &resource());
        let name = name(driver, node);
        // Without a resource version the answer is etcd's newest.
        let object = answered(format!("read NodeFacts {name}"), api.get_opt(&name)).await?;
        let object = object.filter(|it| it.spec.driver == driver.as_str() && it.spec.node == node);
        Ok(object.map(|object| {
            let owner = object.owner_references().first();
            let uid = owner.map(|owner| owner.uid.clone());
            (uid, object.spec.into_facts())
        }))
    }
}

/// The uid of the Node that an object belongs to, and the facts; none: there is no object.
type Told = Option<(Option<String>, Facts)>;

#[async_trait]
impl Nodes for KubernetesNodes {
    async fn facts(&self, driver: &DriverName, node: &NodeId) -> Result<Facts, NodesError> {
        let start = || CsiNodes::start(self.client.clone());
        let csi_nodes = self.csi_nodes.get_or_init(start);
        let found = csi_nodes.with_id(driver.as_str(), node.as_str()).await;
        let unavailable = |reason: String| NodesError::Unavailable {
            node: node.clone(),
            reason,
        };
        let Registered { node: name, uid } = match <[_; 1]>::try_from(found) {
            Ok([one]) => one,
            Err(none) if none.is_empty() => {
                return Err(NodesError::NotFound {
                    driver: driver.clone(),
                    node: node.clone(),
                });
            }
            Err(several) => {
                let names: Vec<_> = several.into_iter().map(|it| it.node).collect();
                return Err(unavailable(format!(
                    "the CSINodes {} all have this id; find out which of them is wrong, since one may claim to be another",
                    names.join(", ")
                )));
            }
        };
        let told = self.told(driver, &name).await;
        let told = told.map_err(|error| unavailable(error.describe()))?;
        match told {
            // A Node of the same name that was there before told them.
            Some((owner, _)) if uid.is_some() && owner != uid => Err(unavailable(format!(
                "the host of the new Node {name} has not told them yet"
            ))),
            Some((_, facts)) => Ok(facts),
            None => Err(unavailable(format!(
                "the host of Node {name} has not told them; see that it runs there with the same `grants.nodes`"
            ))),
        }
    }
}
