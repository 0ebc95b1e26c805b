//! A node's pod may write the objects of its own node, and of a Node nothing but its startup taint.

use crate::manifests::scene::{Scene, create_node, driver, patch_node, printed, refusal, soon};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::json;

const BACKEND: &str = "limited";
const ACCOUNT: &str = "wasmount-limited-node";
const NODE: &str = "limited-a";
const OTHER: &str = "limited-b";

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_limits_a_driver_to_its_node() {
    let scene = Scene::shared().await;
    let (document, driver) = (scene.hostpath_as(BACKEND), driver(BACKEND));
    scene.apply(&printed(&document, &["--topology", "node-local"]).0);
    for name in [NODE, OTHER] {
        create_node(&scene.client, name, &driver).await;
    }
    let pod = scene.client_on(ACCOUNT, NODE).await;
    // The API server itself adds a taint to a node that is not ready yet.
    let nodes = Api::<Node>::all(scene.client.clone());
    let mut taints = nodes.get(NODE).await.unwrap().spec.unwrap().taints.unwrap();
    taints.retain(|taint| !taint.key.starts_with(&driver));
    let without_own = json!({ "spec": { "taints": taints } });
    // The policy takes a moment to be in force; until then the first of these would be let through, and must not be tried on what matters.
    soon("the policy", async || {
        let relabelled = json!({ "metadata": { "labels": { "zone": "policy" } } });
        patch_node(&pod, OTHER, relabelled).await.err()
    })
    .await;

    let (code, said) = refusal(patch_node(&pod, OTHER, without_own.clone()).await);
    assert_eq!(code, 403);
    assert!(said.contains("its own node only"), "{said}");
    for patch in [
        json!({ "metadata": { "labels": { "zone": "elsewhere" } } }),
        json!({ "metadata": { "annotations": { "a": "b" } } }),
        json!({ "spec": { "unschedulable": true } }),
        // Addresses of pods, which only an API server that has none of them yet lets anybody set.
        json!({ "spec": { "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"] } }),
        json!({ "spec": { "taints": [] } }),
        json!({ "spec": { "taints": [
            { "key": "other", "effect": "NoSchedule" }, { "key": "more", "effect": "NoSchedule" },
        ] } }),
    ] {
        let (code, said) = refusal(patch_node(&pod, NODE, patch.clone()).await);
        assert_eq!(code, 403, "{patch}: {said}");
    }
    patch_node(&pod, NODE, without_own).await.unwrap();
    // Nor is what others write looked at.
    patch_node(
        &scene.client,
        OTHER,
        json!({ "spec": { "unschedulable": true } }),
    )
    .await
    .unwrap();
}
