//! An API server for all tests of this program, with a Node for each, and what is asked of its objects.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use wasmount_tests::control_plane::ControlPlane;
use xtask::cluster::access::User;
use xtask::cluster::programs::Programs;
use xtask::place::{self, Place};
use xtask::test::SHARED_CONTROL_PLANE;
use xtask::workspace::Workspace;

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

/// One that a test may stop.
pub(crate) async fn own_control_plane() -> (Place, ControlPlane) {
    place::sweep(SHARED_CONTROL_PLANE);
    let programs = Programs::build(&Workspace::locate().unwrap()).unwrap();
    let place = Place::create(SHARED_CONTROL_PLANE).unwrap();
    let plane = ControlPlane::start(&programs, place.root()).await.unwrap();
    (place, plane)
}

async fn shared_control_plane() -> &'static ControlPlane {
    static SHARED: OnceCell<(Place, ControlPlane)> = OnceCell::const_new();
    &SHARED.get_or_init(own_control_plane).await.1
}

impl Cluster {
    /// With a Node of this name, as a person or kubelet makes one.
    pub(crate) async fn with_node(name: &str, node: Value) -> Self {
        Self::of(shared_control_plane().await, name, node).await
    }

    pub(crate) async fn of(plane: &ControlPlane, name: &str, mut node: Value) -> Self {
        let client = plane.client().await.unwrap();
        node["metadata"]["name"] = json!(name);
        let node: Node = serde_json::from_value(node).unwrap();
        let nodes = Api::<Node>::all(client.clone());
        nodes.create(&PostParams::default(), &node).await.unwrap();
        Self {
            client,
            node: name.to_owned(),
            kubeconfig: plane.kubeconfig(User::Admin),
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
        let plane = shared_control_plane().await;
        plane.kubeconfig_of(&self.node, &token).unwrap()
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
