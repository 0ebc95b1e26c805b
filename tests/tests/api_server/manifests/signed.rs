//! A backend whose plugin must be signed, as it stands in a cluster: with its keys and signatures, without which no pod would serve it.

use crate::manifests::scene::{printed, run};
use crate::server::{error_of, workspace};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use wasmount_tests::keys::key_pair;

fn wasmount(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(workspace().host_program());
    command.args(words).current_dir(folder);
    command.env("WASMOUNT_KEY_PASSWORD", "").output().unwrap()
}

fn good(folder: &Path, words: &[&str]) -> String {
    let output = wasmount(folder, words);
    assert!(output.status.success(), "{}", error_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A component, a key, and a document that wants its signature.
fn scene(folder: &Path) -> PathBuf {
    let component = workspace().root().join("tests/golden/0.1/c-directory.wasm");
    fs::copy(component, folder.join("nas.wasm")).unwrap();
    key_pair(folder, "ann", "").unwrap();
    let document = json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend", "metadata": { "name": "nas" },
        "spec": {
            "driverName": "nas.example.com",
            "plugin": { "path": "nas.wasm", "verify": { "anyOf": [{ "file": "ann.pub" }] } },
            "grants": { "pools": { "volumes": { "path": "/mnt/nas" } } },
        },
    });
    let path = folder.join("nas.yaml");
    fs::write(&path, document.to_string()).unwrap();
    path
}

/// The files that pods have of a ConfigMap.
fn mount(map: &Value, folder: &Path) {
    let map: ConfigMap = serde_json::from_value(map.clone()).unwrap();
    for (name, text) in map.data.unwrap() {
        fs::write(folder.join(name), text).unwrap();
    }
    for (name, bytes) in map.binary_data.unwrap() {
        fs::write(folder.join(name), bytes.0).unwrap();
    }
}

#[test]
fn manifests_of_a_signed_backend_verify_signatures() {
    let directory = tempfile::tempdir().unwrap();
    let document = scene(directory.path());
    good(directory.path(), &["sign", "nas.wasm", "--key", "ann.key"]);
    let (text, _) = printed(&document, &["--storage-backends"]);
    let objects: Vec<Value> = text
        .split("\n---\n")
        .filter(|it| !it.trim().is_empty())
        .map(|it| serde_saphyr::from_str(it).unwrap())
        .collect();
    let of_kind = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap();
    let pem = fs::read_to_string(directory.path().join("ann.pub")).unwrap();
    let object = &of_kind("StorageBackend")["spec"]["plugin"];
    assert_eq!(object["verify"], json!({ "anyOf": [{ "pem": pem }] }));
    // As a pod has it: in a folder of its own, with nothing else of this machine.
    let pod = tempfile::tempdir().unwrap();
    mount(of_kind("ConfigMap"), pod.path());
    let words = ["inspect", "plugin.wasm", "--backend", "backend.yaml"];
    let seen = good(pod.path(), &words);
    assert!(seen.contains("this host would serve it"), "{seen}");
    fs::remove_file(pod.path().join("plugin.wasm.sig")).unwrap();
    let seen = good(pod.path(), &words);
    assert!(!seen.contains("this host would serve it"), "{seen}");
}

#[test]
fn what_could_never_serve_is_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let document = scene(directory.path());
    let refused = |words: &str| {
        let output = run(&[&document], &[]);
        let said = error_of(&output);
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(said.contains(words), "{said}");
    };
    refused("has no signature");
    good(directory.path(), &["sign", "nas.wasm", "--key", "ann.key"]);
    fs::remove_file(directory.path().join("ann.pub")).unwrap();
    refused("ann.pub");
}
