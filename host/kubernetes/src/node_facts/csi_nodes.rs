//! Which node has which id, by CSINode of all nodes: listed at the first question, then watched.

use crate::error::watch_failure;
use futures::StreamExt;
use k8s_openapi::api::storage::v1::CSINode;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use std::pin::pin;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Objects of one page of a listing. 500: that of kubectl; 5,000 nodes are ten requests.
const LIST_PAGE: u32 = 500;

/// The watch; it ends when this is dropped.
pub(super) struct CsiNodes {
    /// All nodes: a kilobyte or two for each.
    nodes: Store<CSINode>,
    _watch: AbortOnDropHandle<()>,
}

/// A node on which a driver has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    /// The name of its Node.
    pub(super) node: String,
    /// The uid of its Node.
    pub(super) uid: Option<String>,
}

impl CsiNodes {
    /// Starts the watch. Call it in a runtime.
    pub(super) fn start(client: Client) -> Self {
        let (nodes, writer) = reflector::store();
        Self {
            nodes,
            _watch: AbortOnDropHandle::new(tokio::spawn(follow(Api::all(client), writer))),
        }
    }

    /// The nodes on which a driver has this id: one, unless a node claims the id of another. Waits until the nodes have been listed.
    pub(super) async fn with_id(&self, driver: &str, id: &str) -> Vec<Registered> {
        // The writer lives as long as the task, which does not end until it is aborted.
        let _ = self.nodes.wait_until_ready().await;
        with_id(&self.nodes.state(), driver, id)
    }
}

fn with_id(nodes: &[Arc<CSINode>], driver: &str, id: &str) -> Vec<Registered> {
    let has_id = |node: &&Arc<CSINode>| {
        let mut drivers = node.spec.drivers.iter();
        drivers.any(|known| known.name == driver && known.node_id == id)
    };
    let registered = |node: &Arc<CSINode>| {
        let mut owners = node.owner_references().iter();
        Registered {
            node: node.name_any(),
            uid: owners
                .find(|owner| owner.kind == "Node")
                .map(|owner| owner.uid.clone()),
        }
    };
    nodes.iter().filter(has_id).map(registered).collect()
}

async fn follow(nodes: Api<CSINode>, writer: Writer<CSINode>) {
    let config = watcher::Config::default().page_size(LIST_PAGE);
    let events = watcher(nodes, config).default_backoff();
    // What takes most of the memory is not asked for.
    let events = events.modify(|node| {
        node.metadata.managed_fields = None;
        node.metadata.annotations = None;
    });
    let mut events = pin!(events.reflect(writer));
    while let Some(event) = events.next().await {
        // It continues from where it was, or lists again.
        if let Err(error) = event {
            let reason = watch_failure(&error);
            tracing::warn!(reason, "watch of CSINodes lost: retrying");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, id: &str) -> Arc<CSINode> {
        let node = json!({
            "metadata": { "name": name, "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-{name}") }] },
            "spec": { "drivers": [
                { "name": "other.example", "nodeID": "same", "topologyKeys": null },
                { "name": "a.example", "nodeID": id, "topologyKeys": null },
            ] },
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_node_is_found_by_the_id_of_its_driver() {
        let nodes = [node("n1", "i-1"), node("n2", "i-2")];
        let expected = Registered {
            node: "n2".to_owned(),
            uid: Some("uid-n2".to_owned()),
        };
        assert_eq!(with_id(&nodes, "a.example", "i-2"), [expected]);
        assert_eq!(with_id(&nodes, "a.example", "same"), []);
        assert_eq!(with_id(&nodes, "b.example", "i-2"), []);
    }

    #[test]
    fn two_nodes_with_one_id_are_both_found() {
        let nodes = [node("n1", "i-1"), node("n2", "i-1")];
        assert_eq!(with_id(&nodes, "a.example", "i-1").len(), 2);
    }
}
