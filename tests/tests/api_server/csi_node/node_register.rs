//! Nodes become hosts of a storage system, and stop being such: by the printed rights, while facts, nodes and the leader change.

use crate::csi_node::cluster::Cluster;
use crate::csi_node::kubelet::{self, Answer};
use crate::csi_node::node_facts::until_answered;
use crate::manifests::scene::printed;
use crate::server::Server;
use kube::api::DeleteParams;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tonic::Code;
use wasmount_core::names::DriverName;
use wasmount_core::node_fact::{FactValues, NodeFact};
use wasmount_core::nodes::Facts;
use wasmount_kubernetes::NodeFactsWriter;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::namespace;
use wasmount_tests::pod_token::token_on;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

const NAMESPACE: &str = "wasmount-system";
const BACKEND: &str = "registered-nodes";
const DRIVER: &str = "registered-nodes.example";
const NODES: [&str; 2] = ["registered-a", "registered-b"];

fn document(folder: &Path) -> PathBuf {
    let component = Workspace::locate().unwrap().component("misbehave");
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\n\
         kind: StorageBackend\n\
         metadata: {{ name: {BACKEND} }}\n\
         spec:\n  \
           driverName: {DRIVER}\n  \
           plugin: {{ path: {component:?} }}\n  \
           settings: {{ register-node: record }}\n  \
           grants: {{ nodes: [iqn] }}\n"
    );
    let path = folder.join("backend.yaml");
    fs::write(&path, text).unwrap();
    path
}

/// A controller that works when it is the leader.
fn controller(name: &str, document: &Path, kubeconfig: &Path) -> Host {
    let place = format!("kubernetes:{NAMESPACE}");
    let words = [
        "--leader-election",
        "--state",
        &place,
        "--csidriver",
        "off",
        "--node-name",
        name,
        "--kubeconfig",
    ];
    let host = Host::start(HostOptions {
        backends: vec![document.to_owned()],
        role: HostRole::Controller,
        more: words
            .map(Into::into)
            .into_iter()
            .chain([kubeconfig.into()])
            .collect(),
        ..HostOptions::default()
    });
    host.unwrap()
}

/// As kubelet registers the driver.
async fn serve(node: &Cluster) {
    let answer = Answer {
        driver: DRIVER.to_owned(),
        node_id: format!("id-{}", node.node),
        topology: BTreeMap::new(),
        count: None,
    };
    kubelet::install(node, &answer).await;
}

/// As the host of the node tells its facts.
async fn tell(node: &Cluster, iqn: &str) {
    let values = FactValues::try_from(vec![iqn.to_owned()]).unwrap();
    let facts = Facts::from([(NodeFact::Iqn, values)]);
    let driver = DriverName::parse(DRIVER).unwrap();
    let writer = NodeFactsWriter::new(node.client.clone(), node.node.clone());
    writer.tell(&driver, &facts).await.unwrap();
}

/// Returns when the storage system of the plugin knows these hosts.
async fn until_registered(controller: &Host, hosts: &str) {
    let words = format!("registered: [{hosts}]");
    let code = Code::FailedPrecondition;
    until_answered(controller, "nodes-registered", code, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_leader_registers_nodes_and_those_that_left() {
    needs_root();
    namespace::enter();
    let server = Server::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let document = document(folder.path());
    server.apply(&printed(&document, &["--topology", "network"]).0);
    let [a, b] = NODES.map(|name| Cluster::of(&server, name, json!({})));
    let (a, b) = (a.await, b.await);
    let account = format!("wasmount-{BACKEND}-controller");
    let token = token_on(&a.client, NAMESPACE, &account, NODES[1]);
    let token = token.await.unwrap();
    let kubeconfig = server.plane.kubeconfig_of(BACKEND, &token).unwrap();

    // Two nodes appear: one before the controller, the other one later, and its facts last.
    serve(&a).await;
    tell(&a, "iqn.a").await;
    let first = controller("first", &document, &kubeconfig);
    until_registered(&first, "id-registered-a=iqn.a").await;
    serve(&b).await;
    tell(&b, "iqn.b").await;
    until_registered(&first, "id-registered-a=iqn.a, id-registered-b=iqn.b").await;

    // A fact changes.
    tell(&a, "iqn.a2").await;
    until_registered(&first, "id-registered-a=iqn.a2, id-registered-b=iqn.b").await;

    // One node leaves while no controller works. The pod of the driver on the other one is being replaced: that node stays.
    drop(first);
    let gone = DeleteParams::default();
    a.csi_nodes().delete(NODES[0], &gone).await.unwrap();
    a.nodes().delete(NODES[0], &gone).await.unwrap();
    kubelet::uninstall(&b, DRIVER).await;
    let second = controller("second", &document, &kubeconfig);
    until_registered(&second, "id-registered-b=iqn.b").await;

    // The other leader follows changes, too, and a node leaves while it works.
    serve(&b).await;
    tell(&b, "iqn.b2").await;
    until_registered(&second, "id-registered-b=iqn.b2").await;
    b.csi_nodes().delete(NODES[1], &gone).await.unwrap();
    until_registered(&second, "").await;
}
