//! What a node tells the controller of its driver: by the printed rights, in two processes, from its first day to its last.

use crate::csi_node::cluster::Cluster;
use crate::csi_node::kubelet::{self, Answer};
use crate::manifests::scene::printed;
use crate::server::Server;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::pod_token::token_on;
use wasmount_tests::root::needs_root;
use wasmount_tests::{namespace, requests};
use xtask::cluster;
use xtask::workspace::Workspace;

const NAMESPACE: &str = "wasmount-system";
const BACKEND: &str = "told-facts";
const DRIVER: &str = "told-facts.example";
const NODE: &str = "told-a";
const OTHER: &str = "told-b";
/// Names of the node in NVMe over Fabrics, one after the other.
const NQNS: [&str; 2] = ["nqn.2014-08.com.example:1", "nqn.2014-08.com.example:2"];
/// `--node-id` of a host of the tests.
const NODE_ID: &str = "test-node";
/// Until what must come has come: several looks of a host at its node, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(200);

fn document(folder: &Path) -> PathBuf {
    let component = Workspace::locate().unwrap().component("misbehave");
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\n\
         kind: StorageBackend\n\
         metadata: {{ name: {BACKEND} }}\n\
         spec:\n  \
           driverName: {DRIVER}\n  \
           plugin: {{ path: {component:?} }}\n  \
           grants: {{ nodes: [iqn, nqn, multipath] }}\n"
    );
    let path = folder.join("backend.yaml");
    fs::write(&path, text).unwrap();
    path
}

/// As kubelet registers the driver.
async fn register(cluster: &Cluster) {
    let answer = Answer {
        driver: DRIVER.to_owned(),
        node_id: NODE_ID.to_owned(),
        topology: BTreeMap::new(),
        count: None,
    };
    kubelet::install(cluster, &answer).await;
}

fn start(role: HostRole, document: &Path, kubeconfig: &Path, root: &Path) -> Host {
    let flags = [
        "--csinode",
        "off",
        "--registration",
        "off",
        "--csidriver",
        "off",
    ];
    let places = [
        ["--node-name".as_ref(), NODE.as_ref()],
        ["--kubeconfig".as_ref(), kubeconfig.as_os_str()],
        ["--node-root".as_ref(), root.as_os_str()],
    ];
    let places = places.concat();
    let host = Host::start(HostOptions {
        backends: vec![document.to_owned()],
        role,
        more: flags
            .map(Into::into)
            .into_iter()
            .chain(places.into_iter().map(Into::into))
            .collect(),
        ..HostOptions::default()
    });
    host.unwrap()
}

/// What the plugin's controller finds out about nodes.
async fn ask(controller: &Host, behaviour: &str) -> Status {
    let mut clients = controller.client().await.unwrap();
    let mut request = requests::create("pvc", 1 << 20);
    let behaviour = ("behaviour".to_owned(), behaviour.to_owned());
    request.parameters.extend([behaviour]);
    clients.controller.create_volume(request).await.unwrap_err()
}

async fn until(controller: &Host, code: Code, words: &str) {
    until_answered(controller, "nodes-told", code, words).await;
}

/// Returns when a CreateVolume with this behaviour is answered so.
pub(super) async fn until_answered(controller: &Host, behaviour: &str, code: Code, words: &str) {
    let begin = Instant::now();
    loop {
        let told = ask(controller, behaviour).await;
        if told.code() == code && told.message().contains(words) {
            return;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "{words}: {told:?}\n{}",
            controller.log()
        );
        sleep(PAUSE).await;
    }
}

/// What of this machine's kernel joins paths, if no multipathd runs here.
fn multipath() -> Vec<&'static str> {
    let native = fs::read_to_string("/sys/module/nvme_core/parameters/multipath");
    let native = native.is_ok_and(|it| it.trim() == "Y");
    native.then_some("nvme").into_iter().collect()
}

/// Writes facts as the host of a node does.
async fn tell(
    facts: &Api<DynamicObject>,
    name: &str,
    driver: &str,
    node: &str,
) -> Result<(), (u16, String)> {
    let object = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "NodeFacts", "metadata": { "name": name },
        "spec": { "driver": driver, "node": node, "facts": { "iqn": ["iqn.forged"] } },
    });
    let parameters = PatchParams::apply("somebody").force();
    match facts.patch(name, &parameters, &Patch::Apply(object)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_facts_of_a_node_reach_its_controller() {
    needs_root();
    namespace::enter();
    let server = Server::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let document = document(folder.path());
    server.apply(&printed(&document, &["--topology", "network"]).0);
    let cluster = Cluster::of(&server, NODE, json!({})).await;
    let other = Cluster::of(&server, OTHER, json!({})).await;
    register(&cluster).await;
    let kubeconfig = async |part: &str, node: &str| {
        let account = format!("wasmount-{BACKEND}-{part}");
        let token = token_on(&cluster.client, NAMESPACE, &account, node)
            .await
            .unwrap();
        server
            .plane
            .kubeconfig_of(&format!("{part}-{node}"), &token)
            .unwrap()
    };

    // The controller alone: nothing is told yet.
    let etc = folder.path().join("etc");
    for name in ["iscsi", "nvme"] {
        fs::create_dir_all(etc.join(name)).unwrap();
    }
    let names = etc.join("iscsi/initiatorname.iscsi");
    fs::write(&names, "InitiatorName=iqn.2004-10.com.example:1\n").unwrap();
    let host_name = etc.join("nvme/hostnqn");
    fs::write(&host_name, NQNS[0]).unwrap();
    let by = kubeconfig("controller", OTHER).await;
    let controller = start(HostRole::Controller, &document, &by, folder.path());
    until(
        &controller,
        Code::Unavailable,
        "has not told them; see that it runs there",
    )
    .await;

    // Its node begins to tell, and an administrator changes the name.
    let by = kubeconfig("node", NODE).await;
    let node = start(HostRole::Node, &document, &by, folder.path());
    until(
        &controller,
        Code::FailedPrecondition,
        r#"told: ["iqn.2004-10.com.example:1"]"#,
    )
    .await;
    fs::write(&names, "InitiatorName=iqn.2004-10.com.example:2\n").unwrap();
    until(
        &controller,
        Code::FailedPrecondition,
        r#"told: ["iqn.2004-10.com.example:2"]"#,
    )
    .await;
    for nqn in NQNS {
        fs::write(&host_name, nqn).unwrap();
        let told = format!("told: [{nqn:?}]");
        until_answered(&controller, "nqn-told", Code::FailedPrecondition, &told).await;
    }
    let told = format!("told: {:?}", multipath());
    until_answered(
        &controller,
        "multipath-told",
        Code::FailedPrecondition,
        &told,
    )
    .await;
    fs::remove_file(&names).unwrap();
    until(&controller, Code::FailedPrecondition, "told: []").await;

    // The object goes with its Node: the collector of Kubernetes removes what has no owner.
    let (resource, admin) = (kind(), &cluster.client);
    let told = Api::<DynamicObject>::all_with(admin.clone(), &resource);
    let of_driver = ListParams::default().labels(&format!("wasmount.io/driver={DRIVER}"));
    let [object] = <[_; 1]>::try_from(told.list(&of_driver).await.unwrap().items).unwrap();
    let owners = object.metadata.owner_references.unwrap();
    assert_eq!((owners.len(), owners[0].kind.as_str()), (1, "Node"));
    assert_eq!(
        Some(&owners[0].uid),
        cluster.node().await.metadata.uid.as_ref()
    );

    // Another node's pod tells nothing of this node, and nothing for another driver.
    let by = kubeconfig("node", OTHER).await;
    let foreign = cluster::client(&by).await.unwrap();
    let foreign = Api::<DynamicObject>::all_with(foreign, &resource);
    let name = object.metadata.name.unwrap();
    for (name, driver, node, words) in [
        (
            name.as_str(),
            DRIVER,
            NODE,
            "tells facts of its own node only",
        ),
        (
            name.as_str(),
            DRIVER,
            OTHER,
            "tells facts of its own node only",
        ),
        (
            "told-facts.example.x",
            "other.example",
            OTHER,
            "writes no nodefacts of other backends",
        ),
        (
            "other.example.x",
            DRIVER,
            OTHER,
            "writes no nodefacts of other backends",
        ),
    ] {
        let (code, said) = tell(&foreign, name, driver, node).await.unwrap_err();
        assert_eq!(code, 403, "{said}");
        assert!(said.contains(words), "{said}");
    }
    tell(&foreign, "told-facts.example.x", DRIVER, OTHER)
        .await
        .unwrap();

    // Nor does it get what is another's by claiming to be that node.
    register(&other).await;
    until(
        &controller,
        Code::Unavailable,
        "the CSINodes told-a, told-b all have this id",
    )
    .await;
    kubelet::uninstall(&other, DRIVER).await;
    until(&controller, Code::FailedPrecondition, "told: []").await;

    // A node that is gone has no facts, nor has one of the same name before its host told them.
    let parameters = DeleteParams::default();
    cluster.csi_nodes().delete(NODE, &parameters).await.unwrap();
    until(
        &controller,
        Code::NotFound,
        "no node of driver told-facts.example has the id `test-node`",
    )
    .await;
    drop(node);
    cluster.nodes().delete(NODE, &parameters).await.unwrap();
    let again = Cluster::of(&server, NODE, json!({})).await;
    register(&again).await;
    until(
        &controller,
        Code::Unavailable,
        "the host of the new Node told-a has not told them yet",
    )
    .await;
}

fn kind() -> kube::api::ApiResource {
    let kind = kube::api::GroupVersionKind::gvk("wasmount.io", "v1alpha1", "NodeFacts");
    kube::api::ApiResource::from_gvk_with_plural(&kind, "nodefacts")
}
