//! What the tests ask of the API server about printed objects.

pub(crate) use crate::server::soon;
use crate::server::{Server, error_of, manifests, workspace};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use tempfile::TempDir;
use wasmount_tests::compiled::CommandCache;
use wasmount_tests::pod_token::token_on;
use xtask::cluster;

pub(crate) const NAMESPACE: &str = "wasmount-system";

/// The API server as one test asks it, with a directory of the test.
pub(crate) struct Scene {
    server: Arc<Server>,
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
}

impl Deref for Scene {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    /// The one that all tests share: backends and nodes have names of the test.
    pub(crate) async fn shared() -> Self {
        Self::of(Server::shared().await).await
    }

    /// One of its own, where only the kinds of external-snapshotter are known.
    pub(crate) async fn start() -> Self {
        let server = Server::start().await;
        server.add_snapshot_kinds();
        Self::of(Arc::new(server)).await
    }

    async fn of(server: Arc<Server>) -> Self {
        Self {
            client: server.client().await,
            server,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// The document of plugins/hostpath for a backend of this name, with a driver of its own ([`driver`]).
    pub(crate) fn hostpath_as(&self, name: &str) -> PathBuf {
        let text = fs::read_to_string(workspace().backend_document("hostpath")).unwrap();
        let built = workspace().plugins_target();
        let text = renamed(&text, name).replace("../target", built.to_str().unwrap());
        let document = self.directory.path().join(format!("{name}.yaml"));
        fs::write(&document, text).unwrap();
        document
    }

    /// A kubeconfig by a token of an account, bound to a pod of a node: as kubelet projects it.
    pub(crate) async fn token_on(&self, account: &str, node: &str) -> PathBuf {
        let token = token_on(&self.client, NAMESPACE, account, node);
        let token = token.await.unwrap();
        self.plane
            .kubeconfig_of(&format!("{account}-{node}"), &token)
            .unwrap()
    }

    pub(crate) async fn client_on(&self, account: &str, node: &str) -> Client {
        cluster::client(&self.token_on(account, node).await)
            .await
            .unwrap()
    }
}

/// The driver of a backend of a test.
pub(crate) fn driver(name: &str) -> String {
    format!("{name}.example")
}

/// A document of plugins/hostpath for a backend of this name.
pub(crate) fn renamed(text: &str, name: &str) -> String {
    text.replace("hostpath.wasmount.io", &driver(name))
        .replace("name: hostpath", &format!("name: {name}"))
}

/// What `wasmount manifests` prints for a document, and what it warns of.
pub(crate) fn printed(document: &Path, more: &[&str]) -> (String, String) {
    printed_of(&[document], more)
}

/// The same for several documents.
pub(crate) fn printed_of(documents: &[&Path], more: &[&str]) -> (String, String) {
    let output = run(documents, more);
    let warned = error_of(&output);
    assert!(output.status.success(), "{warned}");
    (String::from_utf8(output.stdout).unwrap(), warned)
}

/// Runs `wasmount manifests` for documents.
pub(crate) fn run(documents: &[&Path], more: &[&str]) -> Output {
    let compiled = CommandCache::of(documents).unwrap();
    let mut command = manifests(more);
    for document in documents {
        command.arg("--backend").arg(document);
    }
    let command = command.env("WASMOUNT_CACHE", compiled.path());
    command.output().unwrap()
}

/// A node with its driver's startup taint and another's.
pub(crate) async fn create_node(client: &Client, name: &str, driver: &str) {
    let node = json!({
        "metadata": { "name": name, "labels": { "zone": "z" } },
        "spec": { "taints": [
            { "key": format!("{driver}/agent-not-ready"), "effect": "NoExecute" },
            { "key": "other", "effect": "NoSchedule" },
        ] },
    });
    let node = serde_json::from_value(node).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

/// Patches a Node, by a client's rights.
pub(crate) async fn patch_node(
    client: &Client,
    name: &str,
    patch: Value,
) -> Result<(), kube::Error> {
    let nodes = Api::<Node>::all(client.clone());
    let patch = Patch::Merge(patch);
    nodes
        .patch(name, &PatchParams::default(), &patch)
        .await
        .map(drop)
}

/// HTTP's number and the words of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> (u16, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("no refusal: {other:?}"),
    }
}
