//! `wasmount status --cluster` against a real API server: a real host, and two more that only report.

use crate::server::{error_of, workspace};
use crate::storage_backends::scene::Scene;
use crate::storage_backends::serving::{Serving, object, served};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn wasmount(arguments: &[&str]) -> Output {
    let mut command = Command::new(workspace().host_program());
    command.args(arguments).output().unwrap()
}

/// What it prints.
fn overview(kubeconfig: &Path, more: &[&str]) -> String {
    let kubeconfig = kubeconfig.to_str().unwrap();
    let flags = ["status", "--cluster", "--kubeconfig", kubeconfig];
    let output = wasmount(&[&flags, more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", error_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// One backend of the overview.
pub(super) fn one(kubeconfig: &Path, backend: &str) -> Value {
    let all: Value = serde_json::from_str(&overview(kubeconfig, &["--json"])).unwrap();
    let all = all["backends"].as_array().unwrap();
    all.iter()
        .find(|it| it["backend"] == backend)
        .unwrap()
        .clone()
}

/// Reports for a host that there is not.
async fn report(scene: &Scene, backend: &Value, host: &str, fields: Value) {
    let (name, uid) = (&backend["metadata"]["name"], &backend["metadata"]["uid"]);
    let mut spec = json!({ "backend": name, "host": host });
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let object = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackendNode",
        "metadata": {
            "name": format!("{}.{host}", name.as_str().unwrap()),
            "labels": { "wasmount.io/backend-uid": uid },
            "ownerReferences": [{
                "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend", "name": name, "uid": uid,
            }],
        },
        "spec": spec,
    });
    let name = object["metadata"]["name"].as_str().unwrap();
    let parameters = PatchParams::apply("test");
    let reports = scene.reports();
    reports
        .patch(name, &parameters, &Patch::Apply(&object))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_an_overview_names_stragglers_and_troubles() {
    let scene = Scene::shared().await;
    let serving = Serving::start(&scene, "overview");
    scene.apply(&object("overview", "overview.example")).await;
    let backend = served(&scene, "overview").await;
    let kubeconfig = scene.kubeconfig();
    let alone = one(&kubeconfig, "overview");
    assert_eq!(alone["driver"], "overview.example");
    assert_eq!(alone["ready"], "1/1");
    assert_eq!(alone["hosts"], json!({ "total": 1, "current": 1 }));
    for kind in ["behind", "troubled", "faulty"] {
        assert_eq!(alone[kind], json!({ "total": 0, "named": [] }));
    }

    // The digest is the same one in the host's own status, in both kinds of objects, and in the overview.
    let data = serving.host.data();
    let own = wasmount(&["status", "--json", "--data-dir", data.to_str().unwrap()]);
    let own: Value = serde_json::from_slice(&own.stdout).unwrap();
    let drivers = own["drivers"].as_array().unwrap();
    let driver = drivers.iter().find(|it| it["driver"] == "overview.example");
    let version = &driver.unwrap()["version"];
    assert_eq!(alone["versions"][0]["digest"], version["digest"]);
    assert_eq!(alone["versions"][0]["version"], version["pluginVersion"]);
    let digest = version["digest"].as_str().unwrap();
    let short = &digest["sha256:".len()..][..12];
    assert_eq!(backend["status"]["digest"], short);
    let serves = |it: &Value| it["phase"] == "Serving";
    let own = scene.report("overview", "its report", serves).await;
    assert_eq!(own["shortDigest"], short);
    let history = ["history", "overview.example", "--data-dir"];
    for command in [&["status", "--data-dir"][..], &history] {
        let shown = wasmount(&[command, &[data.to_str().unwrap()]].concat());
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains(short), "{shown}");
    }

    let old = format!("sha256:{}", "ab".repeat(32));
    let fault = Timestamp::now().to_string();
    let late = json!({
        "phase": "Serving", "observedGeneration": 0, "version": "0.9", "digest": old, "lastFault": fault,
    });
    report(&scene, &backend, "late", late).await;
    let refused = json!({ "phase": "Refused", "observedGeneration": 1, "reason": "no signature" });
    report(&scene, &backend, "refused", refused).await;
    let all = one(&kubeconfig, "overview");
    assert_eq!(all["hosts"], json!({ "total": 3, "current": 1 }));
    let late = &all["behind"]["named"][0];
    assert_eq!(late["host"], "late");
    assert_eq!(late["reason"], "is at generation 0, the object at 1");
    let faulty = format!(
        "overview: late is faulty (Serving, 0.9 abababababab): the plugin last failed a call at {fault}"
    );
    let refused = &all["troubled"]["named"][0];
    assert_eq!(refused["host"], "refused");
    assert_eq!(refused["reason"], "no signature");
    let table = overview(&kubeconfig, &[]);
    for line in [
        "overview: late is behind (Serving, 0.9 abababababab): is at generation 0, the object at 1",
        "overview: refused is in trouble (Refused, - -): no signature",
        faulty.as_str(),
    ] {
        assert!(table.lines().any(|it| it == line), "{line} in:\n{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overview_without_an_api_server_fails_and_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing");
    let file = file.to_str().unwrap();
    let output = wasmount(&["status", "--cluster", "--kubeconfig", file]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    let named = format!("wasmount: the API server cannot be reached by {file}: ");
    assert!(error.starts_with(&named), "{error}");
    let both = wasmount(&["status", "--cluster", "--watch"]);
    assert_eq!(both.status.code(), Some(64), "{}", error_of(&both));
}
