//! A VolumeSnapshotContent that no node's snapshotter would look after is refused with a message, whoever creates it.

use crate::manifests::scene::{Scene, driver, printed, soon};
use crate::server::error_of;
use serde_json::{Value, json};

const BACKEND: &str = "snapshots";

fn content(name: &str, driver: &str, node: Option<&str>) -> Value {
    let labels = node.map(|node| json!({ "snapshot.storage.kubernetes.io/managed-by": node }));
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": { "name": name, "labels": labels.unwrap_or(json!({})) },
        "spec": {
            "driver": driver, "deletionPolicy": "Retain",
            "source": { "snapshotHandle": "s" },
            "volumeSnapshotRef": { "namespace": "default", "name": name },
        },
    })
}

/// What kubectl says; none: it is made.
fn refused(scene: &Scene, content: Value) -> Option<String> {
    let file = scene.directory.path().join("content.json");
    std::fs::write(&file, content.to_string()).unwrap();
    let created = scene.kubectl(&["create", "-f", file.to_str().unwrap()]);
    (!created.status.success()).then(|| error_of(&created))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_refuses_a_snapshot_that_names_no_node() {
    let scene = Scene::shared().await;
    let (document, driver) = (scene.hostpath_as(BACKEND), driver(BACKEND));
    scene.apply(&printed(&document, &["--topology", "node-local"]).0);
    // The policy takes a moment to be in force.
    let mut number = 0;
    let said = soon("the policy", async || {
        number += 1;
        refused(&scene, content(&format!("early-{number}"), &driver, None))
    })
    .await;
    for words in [
        "forbidden",
        "snapshot.storage.kubernetes.io/managed-by=<node>",
        "--enable-distributed-snapshotting",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(
        refused(&scene, content("labelled", &driver, Some("n"))),
        None
    );
    assert_eq!(
        refused(&scene, content("other", "other.example", None)),
        None
    );
}
