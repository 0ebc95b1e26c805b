//! A node set against a real API server: every object is taken, and a pod of it writes what its drivers need, of its own node only.

use crate::manifests::scene::{
    NAMESPACE, Scene, create_node, driver, patch_node, printed, printed_of, refusal, renamed, soon,
};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_tests::documents;

/// Flags for a backend of the image.
pub(crate) const IN_NODE_SET: [&str; 4] = [
    "--in-node-set",
    "--topology=network",
    "--plugin-in-image",
    "/opt/wasmount/plugins/hostpath.wasm",
];

const BACKENDS: [&str; 2] = ["set-a", "set-b"];
const ACCOUNT: &str = "wasmount-node";
const NODE: &str = "node-set-a";
const OTHER: &str = "node-set-b";

/// A document of plugins/hostpath over a directory of all nodes, for a backend of this name, in a folder of its own.
pub(crate) fn hostpath_in(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    let document = documents::hostpath_over_pool(&folder, "/srv".as_ref()).unwrap();
    let text = renamed(&fs::read_to_string(&document).unwrap(), name);
    fs::write(&document, text + "  secrets: { token: { file: token } }\n").unwrap();
    fs::write(folder.join("token"), "secret").unwrap();
    document
}

/// Writes a report as a host does.
async fn report(client: &Client, backend: &str, host: &str) -> Result<(), kube::Error> {
    let kind = GroupVersionKind::gvk("wasmount.io", "v1alpha1", "StorageBackendNode");
    let reports = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let name = format!("{backend}.{host}");
    let object = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackendNode",
        "metadata": { "name": name },
        "spec": { "backend": backend, "host": host, "phase": "Serving" },
    });
    let parameters = PatchParams::apply("somebody").force();
    let patch = Patch::Apply(object);
    reports.patch(&name, &parameters, &patch).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_limits_a_node_set_to_its_drivers() {
    let scene = Scene::shared().await;
    let documents = BACKENDS.map(|name| hostpath_in(scene.directory.path(), name));
    let paths = documents.each_ref().map(PathBuf::as_path);
    let (text, said) = printed_of(&paths, &["--node-set"]);
    assert_eq!(said, "");
    scene.apply(&text);
    for document in &documents {
        scene.apply(&printed(document, &IN_NODE_SET).0);
    }
    let [first, second] = BACKENDS.map(driver);
    for name in [NODE, OTHER] {
        create_node(&scene.client, name, &first).await;
    }
    let pod = scene.client_on(ACCOUNT, NODE).await;
    // The policies take a moment to be in force.
    soon("the policies", async || {
        report(&pod, BACKENDS[0], OTHER).await.err()
    })
    .await;
    soon("the policies", async || {
        report(&pod, "other", NODE).await.err()
    })
    .await;

    for backend in BACKENDS {
        report(&pod, backend, NODE).await.unwrap();
        let (code, said) = refusal(report(&pod, backend, OTHER).await);
        assert!(
            code == 403 && said.contains("of its own node only"),
            "{said}"
        );
    }
    let (code, said) = refusal(report(&pod, "other", NODE).await);
    let words = "the node set writes no storagebackendnodes of other backends";
    assert!(code == 403 && said.contains(words), "{said}");

    // Startup taints: of both drivers, and of no other.
    let nodes = Api::<Node>::all(scene.client.clone());
    let mut taints = nodes.get(NODE).await.unwrap().spec.unwrap().taints.unwrap();
    let mut more = taints.clone();
    more[0].key = format!("{second}/agent-not-ready");
    taints.extend(more.into_iter().take(1));
    let all = json!({ "spec": { "taints": taints } });
    patch_node(&scene.client, NODE, all).await.unwrap();
    let of_driver = |key: &str, driver: &str| key.starts_with(driver);
    for driver in [&first, &second] {
        taints.retain(|taint| !of_driver(&taint.key, driver));
        let without = json!({ "spec": { "taints": taints } });
        let (code, _) = refusal(patch_node(&pod, OTHER, without.clone()).await);
        assert_eq!(code, 403);
        patch_node(&pod, NODE, without).await.unwrap();
    }
    taints.retain(|taint| taint.key != "other");
    let without = json!({ "spec": { "taints": taints } });
    let (code, said) = refusal(patch_node(&pod, NODE, without).await);
    assert!(code == 403 && said.contains("and no other"), "{said}");

    // Secrets: those of its backends.
    let secrets = |client: &Client| Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    for name in [
        "wasmount-set-a-secrets",
        "wasmount-set-b-secrets",
        "of-another",
    ] {
        let secret = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        let made = secrets(&scene.client);
        made.create(&PostParams::default(), &secret).await.unwrap();
    }
    for backend in BACKENDS {
        let name = format!("wasmount-{backend}-secrets");
        secrets(&pod).get(&name).await.unwrap();
    }
    let (code, _) = refusal(secrets(&pod).get("of-another").await);
    assert_eq!(code, 403);
    // Each controller has its own only.
    let controller = scene.client_on("wasmount-set-a-controller", NODE).await;
    secrets(&controller)
        .get("wasmount-set-a-secrets")
        .await
        .unwrap();
    let (code, _) = refusal(secrets(&controller).get("wasmount-set-b-secrets").await);
    assert_eq!(code, 403);
}
