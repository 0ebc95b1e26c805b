//! Reads the facts of nodes, for a controller.

use super::csi_nodes::{Registered, with_id};
use super::watched::Watched;
use super::{FactsObject, listed, name, resource};
use crate::error::KubernetesError;
use crate::request::answered;
use crate::state::DRIVER_LABEL;
use async_trait::async_trait;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::Api;
use kube::{Client, ResourceExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::watch;
use wasmount_core::mutex::lock;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::nodes::{Facts, NodeList, Nodes, NodesError};

/// The facts that hosts of nodes told the API server.
pub struct KubernetesNodes {
    client: Client,
    /// All nodes: a kilobyte or two for each.
    csi_nodes: OnceLock<Watched<CSINode>>,
    /// What was told for each driver that registers nodes.
    facts: Mutex<BTreeMap<DriverName, Arc<Watched<FactsObject>>>>,
    changes: watch::Sender<()>,
}

impl KubernetesNodes {
    /// Sends no request before the first question: most plugins ask none.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            csi_nodes: OnceLock::new(),
            facts: Mutex::default(),
            changes: watch::Sender::default(),
        }
    }

    fn csi_nodes(&self) -> &Watched<CSINode> {
        let api = || Api::all(self.client.clone());
        let start = || Watched::start(api(), (), None, self.changes.clone());
        self.csi_nodes.get_or_init(start)
    }

    fn facts_of(&self, driver: &DriverName) -> Arc<Watched<FactsObject>> {
        let start = || {
            let api = Api::all_with(self.client.clone(), &resource());
            let labels = format!("{DRIVER_LABEL}={driver}");
            let changes = self.changes.clone();
            Arc::new(Watched::start(api, resource(), Some(&labels), changes))
        };
        let mut all = lock(&self.facts);
        Arc::clone(all.entry(driver.clone()).or_insert_with(start))
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
            (uid, object.spec.facts(true))
        }))
    }
}

/// The uid of the Node that an object belongs to, and the facts; none: there is no object.
type Told = Option<(Option<String>, Facts)>;

#[async_trait]
impl Nodes for KubernetesNodes {
    async fn facts(&self, driver: &DriverName, node: &NodeId) -> Result<Facts, NodesError> {
        let csi_nodes = self.csi_nodes().all().await;
        let found = with_id(&csi_nodes, driver.as_str(), node.as_str());
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
                let mut names: Vec<_> = several.into_iter().map(|it| it.node).collect();
                // The library keeps them in no order.
                names.sort();
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

    async fn list(&self, driver: &DriverName) -> NodeList {
        let facts = self.facts_of(driver);
        let (csi_nodes, facts) = tokio::join!(self.csi_nodes().all(), facts.all());
        listed::nodes(driver, &csi_nodes, &facts)
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
