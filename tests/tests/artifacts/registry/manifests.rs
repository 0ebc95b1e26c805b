//! `wasmount manifests` and `check` of a document as it stands in a cluster: its component in a registry, its secrets in Secrets.

use crate::registry::server::{Server, component, good, refused, text, wasmount};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAMESPACE: &str = "storage";

fn document(server: &Server) -> PathBuf {
    let path = server.path().join("nas.yaml");
    let document = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend", "metadata": { "name": "nas" },
        "spec": {
            "driverName": "nas.example.com",
            "plugin": {
                "reference": server.reference("storage/nas:1"),
                "registry": {
                    "credentials": { "secret": { "namespace": NAMESPACE, "name": "pull", "key": ".dockerconfigjson" } },
                    "caFile": text(&server.certificates.authority),
                },
            },
            "grants": { "pools": { "volumes": { "path": "/mnt/nas" } } },
            "secrets": { "token": { "secret": { "namespace": NAMESPACE, "name": "nas-token", "key": "token" } } },
        },
    });
    fs::write(&path, document.to_string()).unwrap();
    path
}

fn manifests(server: &Server, document: &Path, more: &[&str]) -> Command {
    let words = ["manifests", "--backend", text(document)];
    let mut command = wasmount(&words);
    // Credentials are the person's, the authority is the document's.
    command
        .arg("--registry-config")
        .arg(server.config())
        .args(more);
    command
}

fn objects(printed: &str) -> Vec<Value> {
    let documents = printed.split("\n---\n").filter(|it| !it.trim().is_empty());
    documents
        .map(|it| serde_saphyr::from_str(it).unwrap())
        .collect()
}

#[test]
fn a_registry_backend_with_secrets_becomes_manifests() {
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    good(&mut server.wasmount(&["push", text(&component()), &reference]));
    let document = document(&server);
    let words = ["--namespace", NAMESPACE, "--storage-backends"];
    let output = manifests(&server, &document, &words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let objects = objects(&String::from_utf8(output.stdout).unwrap());
    let backend = objects.iter().find(|it| it["kind"] == "StorageBackend");
    let spec = &backend.unwrap()["spec"];
    assert_eq!(spec["plugin"]["reference"], json!(reference));
    // The authority goes along, since pods have no file of this machine.
    let authority = fs::read(&server.certificates.authority).unwrap();
    let map = objects.iter().find(|it| it["kind"] == "ConfigMap").unwrap();
    let map: ConfigMap = serde_json::from_value(map.clone()).unwrap();
    assert_eq!(map.binary_data.unwrap()["registry-ca.pem"].0, authority);
    assert_eq!(
        spec["plugin"]["registry"]["caFile"],
        "/etc/wasmount/registry-ca.pem"
    );
    assert_eq!(
        spec["secrets"]["token"]["secret"],
        json!({ "namespace": NAMESPACE, "name": "nas-token", "key": "token" })
    );
    // Those two may be read, and no other.
    let rules = objects.iter().filter(|it| it["kind"] == "Role");
    let rules = rules.flat_map(|role| role["rules"].as_array().unwrap());
    let mut secrets: Vec<_> = rules
        .filter(|rule| rule["resources"] == json!(["secrets"]))
        .flat_map(|rule| rule["resourceNames"].as_array().unwrap().clone())
        .collect();
    secrets.sort_by_key(Value::to_string);
    secrets.dedup();
    assert_eq!(secrets, ["nas-token", "pull"]);
    // Without an object the host reads the document and pulls all the same.
    let output = manifests(&server, &document, &[]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn secrets_of_another_namespace_are_rejected() {
    let mut server = Server::start();
    let reference = server.reference("storage/nas:1");
    good(&mut server.wasmount(&["push", text(&component()), &reference]));
    let document = document(&server);
    let words = ["--namespace", "elsewhere", "--storage-backends"];
    let output = manifests(&server, &document, &words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{errors}");
    assert!(
        errors.contains("Secret nas-token is in storage"),
        "{errors}"
    );
    server.end();
    let said = refused(manifests(&server, &document, &["--timeout", "2"]).env("NO_COLOR", "1"));
    assert!(said.contains("is not pulled"), "{said}");
}

#[test]
fn a_check_reads_secrets_of_a_cluster_from_files_and_says_so() {
    let server = Server::start();
    let document = document(&server);
    let component = component();
    let words = ["check", text(&component), "--backend", text(&document)];
    let said = refused(&mut wasmount(&words));
    assert!(said.contains("`--secret token=FILE`"), "{said}");
    let token = server.path().join("token");
    fs::write(&token, "hunter2").unwrap();
    let secret = format!("token={}", token.display());
    let printed = good(wasmount(&words).args(["--secret", &secret]));
    assert!(printed.contains("probe"), "{printed}");
    let wrong = wasmount(&words)
        .args(["--secret", "tokn=x"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(64));
}
