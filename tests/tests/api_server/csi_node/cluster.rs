//! A Node for each test, and what is asked of its objects.

use crate::server::Server;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Until what must come has come. Generous: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at the API server.
const LOOK: Duration = Duration::from_millis(100);

/// A Node in a cluster.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) kubeconfig: PathBuf,
}

impl Cluster {
    /// With a Node of this name, as a person or kubelet makes one.
    pub(crate) async fn with_node(name: &str, node: Value) -> Self {
        Self::of(&*Server::shared().await, name, node).await
    }

    pub(crate) async fn of(server: &Server, name: &str, mut node: Value) -> Self {
        let client = server.client().await;
        node["metadata"]["name"] = json!(name);
        let node: Node = serde_json::from_value(node).unwrap();
        let nodes = Api::<Node>::all(client.clone());
        nodes.create(&PostParams::default(), &node).await.unwrap();
        Self {
            client,
            node: name.to_owned(),
            kubeconfig: server.kubeconfig(),
        }
    }

    /// A kubeconfig without any rights.
    pub(crate) async fn kubeconfig_without_rights(&self) -> PathBuf {
        use k8s_openapi::api::authentication::v1::TokenRequest;
        use k8s_openapi::api::core::v1::ServiceAccount;
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), "default");
        let account = json!({ "metadata": { "name": self.node } });
        let account = serde_json::from_value(account).unwrap();
        let parameters = PostParams::default();
        accounts.create(&parameters, &account).await.unwrap();
        let request: TokenRequest =
            serde_json::from_value(json!({ "metadata": {}, "spec": { "audiences": [] } })).unwrap();
        let given = accounts.create_token_request(&self.node, &parameters, &request);
        let token = given.await.unwrap().status.unwrap().token.unwrap();
        let server = Server::shared().await;
        server.plane.kubeconfig_of(&self.node, &token).unwrap()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn csi_nodes(&self) -> Api<CSINode> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn node(&self) -> Node {
        self.nodes().get(&self.node).await.unwrap()
    }

    pub(crate) async fn csi_node(&self) -> Option<CSINode> {
        self.csi_nodes().get_opt(&self.node).await.unwrap()
    }

    /// Merges into the Node; `null` takes a field away.
    pub(crate) async fn change_node(&self, change: Value) {
        let patch = Patch::Merge(change);
        let nodes = self.nodes();
        let parameters = PatchParams::default();
        let patched = nodes.patch(&self.node, &parameters, &patch).await;
        patched.unwrap();
    }

    /// Merges into CSINode.
    pub(crate) async fn change_csi_node(&self, change: Value) {
        let patch = Patch::Merge(change);
        let csi_nodes = self.csi_nodes();
        let parameters = PatchParams::default();
        let patched = csi_nodes.patch(&self.node, &parameters, &patch).await;
        patched.unwrap();
    }

    /// What `kubectl describe node` shows: type, reason and text of each event.
    pub(crate) async fn events(&self) -> Vec<(String, String, String)> {
        let events = Api::<Event>::namespaced(self.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_node = all.into_iter().filter(|event| {
            let regarding = event.regarding.as_ref().unwrap();
            (regarding.kind.as_deref(), regarding.name.as_deref())
                == (Some("Node"), Some(&self.node))
        });
        of_node
            .map(|event| {
                let words = [event.type_, event.reason, event.note];
                let [kind, reason, note] = words.map(Option::unwrap_or_default);
                (kind, reason, note)
            })
            .collect()
    }

    /// Waits for an event.
    pub(crate) async fn told(&self, kind: &str, reason: &str, words: &str) {
        let what = format!("{kind} {reason}: {words}");
        eventually(&what, async || {
            let events = self.events().await;
            let mut events = events.iter();
            events.any(|it| it.0 == kind && it.1 == reason && it.2.contains(words))
        })
        .await;
    }
}

/// Waits until it is so.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let start = Instant::now();
    while !so().await {
        assert!(start.elapsed() < PATIENCE, "not within a minute: {what}");
        sleep(LOOK).await;
    }
}
