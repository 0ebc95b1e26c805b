//! The definitions in a real API server: what people see of a backend, and that `kubectl explain` has a sentence for each key.

use crate::server::error_of;
use crate::storage_backends::scene::{Scene, backend, soon};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_is_listed_with_its_driver_version_state_and_digest() {
    let scene = Scene::shared().await;
    scene.apply(&backend("listed", "listed.example")).await;
    let status = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend",
        "metadata": { "name": "listed" },
        "status": {
            "version": "1.2.3", "digest": "0123456789ab", "ready": "2/3",
            "rollout": { "progress": "1/3" },
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "NotServing",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }, {
                "type": "Degraded", "status": "True", "reason": "Refused",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    let parameters = PatchParams::apply("test");
    let written = scene.backends();
    written
        .patch_status("listed", &parameters, &Patch::Apply(&status))
        .await
        .unwrap();
    let [head, row] = listed(&scene, &["sb", "listed"]);
    let columns = [
        "NAME", "DRIVER", "VERSION", "READY", "HOSTS", "DIGEST", "ROLLOUT", "AGE",
    ];
    assert_eq!(head, columns);
    let shown = [
        "listed",
        "listed.example",
        "1.2.3",
        "False",
        "2/3",
        "0123456789ab",
        "1/3",
    ];
    assert_eq!(row.get(..7), Some(&shown.map(str::to_owned)[..]), "{row:?}");
    let [head, row] = listed(&scene, &["sb", "listed", "-o", "wide"]);
    assert_eq!(head, [&columns[..], &["REASON"]].concat());
    assert_eq!(row.get(..7), Some(&shown.map(str::to_owned)[..]), "{row:?}");
    assert_eq!(row.get(8..), Some(&["Refused".to_owned()][..]), "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_says_is_listed_in_full() {
    let scene = Scene::shared().await;
    let fault = Timestamp::now() - SignedDuration::from_hours(10 * 24 + 1);
    let report = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackendNode",
        "metadata": { "name": "listed.n1" },
        "spec": {
            "backend": "listed", "host": "n1", "phase": "Removing", "version": "1.2.3",
            "shortDigest": "0123456789ab", "volumes": 4, "reason": "staged", "lastFault": fault.to_string(),
        },
    });
    let parameters = PatchParams::apply("test");
    let written = scene.reports();
    written
        .patch("listed.n1", &parameters, &Patch::Apply(&report))
        .await
        .unwrap();
    let [head, row] = listed(&scene, &["sbn", "listed.n1"]);
    assert_eq!(
        head,
        [
            "NAME", "BACKEND", "HOST", "PHASE", "VERSION", "DIGEST", "VOLUMES", "LAST", "FAULT",
            "REASON"
        ]
    );
    assert_eq!(
        row,
        [
            "listed.n1",
            "listed",
            "n1",
            "Removing",
            "1.2.3",
            "0123456789ab",
            "4",
            "10d",
            "staged"
        ]
    );
    written
        .delete("listed.n1", &DeleteParams::default())
        .await
        .unwrap();
}

/// The words of both lines that `kubectl get` prints.
fn listed(scene: &Scene, what: &[&str]) -> [Vec<String>; 2] {
    let listed = scene.kubectl(&[&["get"], what].concat());
    let text = String::from_utf8(listed.stdout.clone()).unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = text.lines().map(words).collect();
    lines
        .try_into()
        .unwrap_or_else(|lines| panic!("{lines:?}: {}", error_of(&listed)))
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explain_shows_the_text_of_a_key() {
    let scene = Scene::shared().await;
    // An API server publishes what it knows of a definition some time after it serves its objects.
    let explained = soon("an explanation", async || {
        let explained = scene.kubectl(&["explain", "storagebackends.spec.plugin.reference"]);
        explained.status.success().then_some(explained)
    })
    .await;
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(
        text.contains("Name of the component in a registry"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_written_beside_the_spec_and_not_with_it() {
    let scene = Scene::shared().await;
    let mut document = backend("apart", "apart.example");
    document["status"] = json!({ "ready": "9/9" });
    scene.apply(&document).await;
    let object = scene.backends().get("apart").await.unwrap();
    assert_eq!(object.data.get("status"), None);
}
