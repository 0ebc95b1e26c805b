//! Which node has which id, by CSINode of all nodes: listed at the first question, then watched.

use crate::error::watch_failure;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::storage::v1::CSINode;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::mutex::lock;

/// Objects of one page of a listing. 500: that of kubectl; 5,000 nodes are ten requests.
const LIST_PAGE: u32 = 500;

/// The watch; it ends when this is dropped.
pub(super) struct CsiNodes {
    index: Arc<Mutex<Index>>,
    listed: watch::Receiver<bool>,
    _watch: AbortOnDropHandle<()>,
}

/// All nodes: some hundred bytes for each.
#[derive(Default)]
pub(super) struct Index {
    nodes: BTreeMap<String, Registered>,
    /// What a listing has shown so far.
    listing: Option<BTreeMap<String, Registered>>,
}

/// What a CSINode says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    /// The uid of its Node.
    pub(super) node_uid: Option<String>,
    /// The node id of each driver.
    ids: BTreeMap<String, String>,
}

impl CsiNodes {
    /// Starts the watch. Call it in a runtime.
    pub(super) fn start(client: Client) -> Self {
        let index = Arc::new(Mutex::new(Index::default()));
        let (sender, listed) = watch::channel(false);
        let task = follow(Api::all(client), Arc::clone(&index), sender);
        Self {
            index,
            listed,
            _watch: AbortOnDropHandle::new(tokio::spawn(task)),
        }
    }

    /// Returns when all nodes that existed at the start have been listed.
    pub(super) async fn listed(&self) {
        // The sender lives as long as the task, which does not end until it is aborted.
        let _ = self.listed.clone().wait_for(|listed| *listed).await;
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }
}

impl Index {
    /// The nodes on which a driver has this id, by name: one, unless a node claims the id of another.
    pub(super) fn with_id(&self, driver: &str, id: &str) -> Vec<(String, Registered)> {
        let has_id = |it: &Registered| it.ids.get(driver).is_some_and(|known| known == id);
        let found = self.nodes.iter().filter(|(_, it)| has_id(it));
        found.map(|(name, it)| (name.clone(), it.clone())).collect()
    }

    fn take(&mut self, event: Event<CSINode>) {
        match event {
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitApply(node) => {
                let listing = self.listing.get_or_insert_default();
                listing.insert(node.name_any(), registered(&node));
            }
            Event::InitDone => self.nodes = self.listing.take().unwrap_or_default(),
            Event::Apply(node) => drop(self.nodes.insert(node.name_any(), registered(&node))),
            Event::Delete(node) => drop(self.nodes.remove(&node.name_any())),
        }
    }
}

fn registered(node: &CSINode) -> Registered {
    let owners = node.owner_references().iter();
    let mut of_node = owners.filter(|owner| owner.kind == "Node");
    let drivers = node.spec.drivers.iter();
    Registered {
        node_uid: of_node.next().map(|owner| owner.uid.clone()),
        ids: drivers
            .map(|driver| (driver.name.clone(), driver.node_id.clone()))
            .collect(),
    }
}

async fn follow(nodes: Api<CSINode>, index: Arc<Mutex<Index>>, listed: watch::Sender<bool>) {
    let config = watcher::Config::default().page_size(LIST_PAGE);
    let events = watcher(nodes, config).default_backoff();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let done = matches!(event, Event::InitDone);
                lock(&index).take(event);
                if done {
                    listed.send_replace(true);
                }
            }
            // It continues from where it was, or lists again.
            Err(error) => {
                let reason = watch_failure(&error);
                tracing::warn!(reason, "watch of CSINodes lost: retrying");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, id: &str) -> CSINode {
        let node = json!({
            "metadata": { "name": name, "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-{name}") }] },
            "spec": { "drivers": [
                { "name": "other.example", "nodeID": "same", "topologyKeys": null },
                { "name": "a.example", "nodeID": id, "topologyKeys": null },
            ] },
        });
        serde_json::from_value(node).unwrap()
    }

    fn found(index: &Index, id: &str) -> Vec<(String, Option<String>)> {
        let found = index.with_id("a.example", id).into_iter();
        found.map(|(name, it)| (name, it.node_uid)).collect()
    }

    #[test]
    fn a_node_is_found_by_the_id_of_its_driver() {
        let mut index = Index::default();
        index.take(Event::Apply(node("n1", "i-1")));
        index.take(Event::Apply(node("n2", "i-2")));
        let expected = [("n2".to_owned(), Some("uid-n2".to_owned()))];
        assert_eq!(found(&index, "i-2"), expected);
        assert!(found(&index, "same").is_empty());
        assert!(index.with_id("b.example", "i-2").is_empty());
        index.take(Event::Delete(node("n2", "i-2")));
        assert!(found(&index, "i-2").is_empty());
    }

    #[test]
    fn two_nodes_with_one_id_are_both_found() {
        let mut index = Index::default();
        index.take(Event::Apply(node("n1", "i-1")));
        index.take(Event::Apply(node("n2", "i-1")));
        assert_eq!(found(&index, "i-1").len(), 2);
    }

    #[test]
    fn a_listing_replaces_what_was_known_when_it_is_whole() {
        let mut index = Index::default();
        index.take(Event::Apply(node("gone", "i-0")));
        index.take(Event::Init);
        index.take(Event::InitApply(node("n1", "i-1")));
        assert_eq!(
            (found(&index, "i-0").len(), found(&index, "i-1").len()),
            (1, 0)
        );
        index.take(Event::InitDone);
        assert_eq!(
            (found(&index, "i-0").len(), found(&index, "i-1").len()),
            (0, 1)
        );
    }
}
