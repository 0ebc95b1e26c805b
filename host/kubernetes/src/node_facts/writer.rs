//! Writes the facts of this host's node. The object belongs to the Node, and goes with it.

use super::{FactsObject, FactsSpec, KIND, name, resource};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::request::answered;
use crate::state::DRIVER_LABEL;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
use wasmount_core::names::DriverName;
use wasmount_core::nodes::Facts;

/// Writes for one node.
#[derive(Clone)]
pub struct NodeFactsWriter {
    client: Client,
    node: String,
}

impl NodeFactsWriter {
    /// Sends no request yet.
    pub fn new(client: Client, node: String) -> Self {
        Self { client, node }
    }

    /// Tells all facts of the node for this driver; others that were told are gone.
    pub async fn tell(&self, driver: &DriverName, facts: &Facts) -> Result<(), KubernetesError> {
        let nodes = Api::<Node>::all(self.client.clone());
        let node = answered(format!("read Node {}", self.node), nodes.get(&self.node)).await?;
        let name = name(driver, &self.node);
        let spec = FactsSpec::new(driver, &self.node, facts);
        let mut object = FactsObject::new(&name, &resource(), spec);
        object.metadata.labels = Some([(DRIVER_LABEL.to_owned(), driver.to_string())].into());
        object.metadata.owner_references = node.owner_ref(&()).map(|owner| vec![owner]);
        let api = Api::<FactsObject>::all_with(self.client.clone(), &resource());
        // Forced: no one else speaks for this node.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let applied = api.patch(&name, &parameters, &patch);
        answered(format!("apply {KIND} {name}"), applied)
            .await
            .map(drop)
    }
}
