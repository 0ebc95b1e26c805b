//! A right document and many wrong ones, each as a file and as an object: both readers say the same of each.

use crate::server::{error_of, manifests, printed};
use crate::storage_backends::scene::{Scene, backend};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A document that says something with every key.
fn full() -> Value {
    let digest = format!("sha256:{}", "0".repeat(64));
    let mut document = backend("full", "full.example");
    document["metadata"]["labels"] = json!({ "tier": "gold" });
    document["spec"] = json!({
        "driverName": "full.example",
        "plugin": {
            "reference": format!("oci://registry.example:5000/acme/csi:1.2@{digest}"),
            "registry": {
                "credentials": { "secret": { "namespace": "a", "name": "b", "key": ".dockerconfigjson" } },
                "caFile": "/ca.pem", "plainHttp": true,
            },
            "digest": digest, "wasi": "full",
            "verify": {
                "anyOf": [{ "file": "/key.pub" }],
                "allOf": [{ "pem": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n" }],
            },
        },
        "settings": { "port": "8080" },
        "secrets": {
            "token": { "file": "/run/token" },
            "key": { "secret": { "namespace": "a", "name": "b", "key": "c" } },
        },
        "grants": {
            "pools": { "fast": { "path": "/srv/fast", "fullCopies": true, "mountOptions": ["suid"] }, "slow": { "path": "slow" } },
            "filesystems": [
                { "type": "nfs4", "sources": ["server:/export/*"], "mountOptions": ["vers=4.2"] },
                { "type": "tmpfs", "maxBytes": "64Mi" },
            ],
            "devices": [{ "facts": { "by-id": "scsi-0Acme_*", "partition": "1" }, "rescan": true, "mountOptions": ["discard"] }],
            "sealing": { "secret": "token", "previousSecrets": ["key"] },
        },
        "limits": {
            "memory": "128Mi", "time": "1m30s", "cpu": "500ms", "concurrency": 8, "hostCallBytes": 1048576,
            "tableElements": 5000, "handles": 100, "stateBytes": "1Gi", "longIds": true,
        },
        "versions": { "keep": 3, "drain": "30s", "rollback": { "faults": 0, "window": "1h" } },
        "rollout": { "steps": [
            { "percent": 1, "pause": "10m" },
            { "selector": { "matchLabels": { "example.com/tier": "gold", "empty": "" } }, "pause": "168h" },
            { "percent": 100 },
        ] },
        "csi": { "hideCapabilities": ["GET_SNAPSHOT", "VOLUME_CONDITION"] },
        "csiDriver": {
            "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent", "Ephemeral"], "podInfoOnMount": true,
            "tokenRequests": [{ "audience": "a", "expirationSeconds": 600 }, { "audience": "b" }],
            "requiresRepublish": true, "seLinuxMount": true, "storageCapacity": false,
            "nodeAllocatableUpdatePeriodSeconds": 10, "serviceAccountTokenInSecrets": true,
            "preventPodSchedulingIfMissing": true,
        },
    });
    document
}

/// Documents that differ from a right one in one place.
fn wrong() -> Vec<(&'static str, Value)> {
    let path = || json!({ "path": "/a.wasm" });
    let nfs = |more: Value| {
        let mut one = json!({ "type": "nfs4", "sources": ["a:/b"] });
        one.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([one])
    };
    let with = |mut base: Value, more: Value| {
        base.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        base
    };
    let pool = |path: &str| json!({ "p": { "path": path } });
    let fact = |name: &str, value: &str| json!([{ "facts": { name: value } }]);
    let many = |one: Value| Value::from(vec![one; 17]);
    let one = |step: Value| json!({ "steps": [step] });
    let labels = |key: &str, value: &str| json!({ "selector": { "matchLabels": { key: value } } });
    let percents = |all: &[u64]| {
        let steps: Vec<_> = all.iter().map(|it| json!({ "percent": it })).collect();
        json!({ "steps": steps })
    };
    vec![
        ("driverName", json!("-a")),
        ("driverName", json!("")),
        ("driverName", json!("a/b")),
        ("driverName", json!("a".repeat(64))),
        ("driverName", json!(7)),
        ("plugin", json!({})),
        (
            "plugin",
            json!({ "path": "/a", "reference": "oci://a.b/c:1" }),
        ),
        ("plugin", json!({ "path": "" })),
        (
            "plugin",
            with(path(), json!({ "registry": { "plainHttp": true } })),
        ),
        ("plugin", with(path(), json!({ "digest": "sha256:12" }))),
        ("plugin", with(path(), json!({ "wasi": "some" }))),
        ("plugin", with(path(), json!({ "verify": {} }))),
        ("plugin", with(path(), json!({ "verify": { "anyOf": [] } }))),
        (
            "plugin",
            with(path(), json!({ "verify": { "anyOf": [{}] } })),
        ),
        (
            "plugin",
            with(path(), json!({ "verify": { "anyOf": [{ "pem": "key" }] } })),
        ),
        (
            "plugin",
            with(
                path(),
                json!({ "verify": { "anyOf": [{ "file": "/a", "pem": "-----BEGIN PUBLIC KEY-----" }] } }),
            ),
        ),
        (
            "plugin",
            with(
                path(),
                json!({ "verify": { "allOf": many(json!({ "file": "/a" })) } }),
            ),
        ),
        ("plugin", json!({ "reference": "oci://plugin" })),
        ("plugin", json!({ "reference": "oci://acme/csi:1" })),
        ("plugin", json!({ "reference": "oci://a.b/C:1" })),
        ("plugin", json!({ "reference": "oci://a.b/c" })),
        ("plugin", json!({ "reference": "oci://a.b/c@sha256:12" })),
        ("plugin", with(path(), json!({ "paht": "/b" }))),
        ("settings", json!({ "port": 8080 })),
        ("secrets", json!({ "token": {} })),
        ("secrets", json!({ "token": "hunter22" })),
        (
            "secrets",
            json!({ "token": { "file": "/a", "secret": { "namespace": "a", "name": "b", "key": "c" } } }),
        ),
        (
            "secrets",
            json!({ "token": { "secret": { "namespace": "A", "name": "b", "key": "c" } } }),
        ),
        (
            "secrets",
            json!({ "token": { "secret": { "namespace": "a", "name": "b", "key": "" } } }),
        ),
        (
            "secrets",
            json!({ "token": { "secret": { "namespace": "a", "name": "b" } } }),
        ),
        (
            "secrets",
            (0..65)
                .map(|n| (n.to_string(), json!({ "file": "/a" })))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        ),
        ("grants.pools", pool("")),
        ("grants.pools", pool("/")),
        ("grants.pools", pool("./")),
        ("grants.pools", pool("/a/../b")),
        ("grants.pools", json!({ "p": {} })),
        (
            "grants.pools",
            json!({ "p": { "path": "/a", "mountOptions": ["a,b"] } }),
        ),
        (
            "grants.pools",
            json!({ "p": { "path": "/a", "mountOptions": [""] } }),
        ),
        (
            "grants.filesystems",
            json!([{ "type": "tmpfs", "sources": ["a"] }]),
        ),
        ("grants.filesystems", json!([{ "type": "nfs4" }])),
        (
            "grants.filesystems",
            json!([{ "type": "nfs4", "sources": [] }]),
        ),
        (
            "grants.filesystems",
            json!([{ "type": "", "sources": ["a"] }]),
        ),
        (
            "grants.filesystems",
            json!([{ "type": "tmpfs" }, { "type": "tmpfs" }]),
        ),
        ("grants.filesystems", nfs(json!({ "maxBytes": "1Mi" }))),
        ("grants.filesystems", nfs(json!({ "sources": ["a*b"] }))),
        ("grants.filesystems", nfs(json!({ "sources": ["**"] }))),
        (
            "grants.filesystems",
            json!([{ "type": "tmpfs", "maxBytes": "64mi" }]),
        ),
        ("grants.devices", json!([{ "facts": {} }])),
        ("grants.devices", fact("label", "a")),
        ("grants.devices", fact("by-id", "*")),
        ("grants.devices", fact("partition", "1")),
        ("grants.devices", fact("serial", "a*b")),
        ("grants.devices", fact("serial", "")),
        ("grants.sealing", json!({})),
        ("grants.sealing", json!({ "secret": "" })),
        (
            "grants.sealing",
            json!({ "secret": "token", "previousSecrets": vec!["a"; 9] }),
        ),
        ("limits", json!({ "memory": "1Ki" })),
        ("limits", json!({ "memory": "5Gi" })),
        ("limits", json!({ "memory": 1024 })),
        ("limits", json!({ "memory": "64mi" })),
        ("limits", json!({ "memory": -1 })),
        ("limits", json!({ "time": "0s" })),
        ("limits", json!({ "time": "25h" })),
        ("limits", json!({ "time": "1d" })),
        ("limits", json!({ "time": "" })),
        ("limits", json!({ "cpu": "60" })),
        ("limits", json!({ "concurrency": 0 })),
        ("limits", json!({ "concurrency": "many" })),
        ("limits", json!({ "handles": 3_000_000_000_u64 })),
        ("limits", json!({ "longIds": "maybe" })),
        ("versions", json!({ "keep": 0 })),
        ("versions", json!({ "keep": 101 })),
        ("versions", json!({ "drain": "0s" })),
        ("versions", json!({ "rollback": { "faults": 1001 } })),
        ("versions", json!({ "rollback": { "window": "61m" } })),
        ("rollout", json!({})),
        ("rollout", percents(&[])),
        ("rollout", percents(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])),
        ("rollout", percents(&[0])),
        ("rollout", percents(&[101])),
        ("rollout", percents(&[20, 10])),
        ("rollout", percents(&[10, 10])),
        ("rollout", one(json!({ "pause": "10m" }))),
        ("rollout", one(json!({ "percent": 1, "pause": "169h" }))),
        ("rollout", one(json!({ "percent": 1, "pause": "0s" }))),
        (
            "rollout",
            one(with(labels("a", "b"), json!({ "percent": 1 }))),
        ),
        ("rollout", one(json!({ "selector": {} }))),
        ("rollout", one(json!({ "selector": { "matchLabels": {} } }))),
        ("rollout", one(labels("-a", "b"))),
        ("rollout", one(labels("A.b/c", "b"))),
        ("rollout", one(labels("a", "b c"))),
        ("csi", json!({ "hideCapabilities": ["NOPE"] })),
        ("csi", json!({ "hide": [] })),
        ("csiDriver", json!({ "fsGroupPolicy": "Some" })),
        (
            "csiDriver",
            json!({ "volumeLifecycleModes": ["Persistent", "Persistent"] }),
        ),
        (
            "csiDriver",
            json!({ "volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": false }),
        ),
        (
            "csiDriver",
            json!({ "tokenRequests": [{ "audience": "a" }, { "audience": "a" }] }),
        ),
        (
            "csiDriver",
            json!({ "tokenRequests": [{ "audience": "a", "expirationSeconds": 599 }] }),
        ),
        (
            "csiDriver",
            json!({ "nodeAllocatableUpdatePeriodSeconds": 9 }),
        ),
        ("csiDriver", json!({ "serviceAccountTokenInSecrets": true })),
        ("drivername", json!("a.example")),
    ]
}

/// A right document with another value in one place.
fn document(place: &str, value: Value) -> Value {
    let mut document = backend("one", "one.example");
    match place.split_once('.') {
        None => document["spec"][place] = value,
        Some((above, below)) => document["spec"][above][below] = value,
    }
    document
}

impl Scene {
    /// Whether the API server takes it from a client that is strict, as kubectl is; and what it says otherwise.
    async fn takes(&self, document: &Value) -> Result<(), String> {
        let request = tonic::codegen::http::Request::post(
            "/apis/wasmount.io/v1alpha1/storagebackends?dryRun=All&fieldValidation=Strict",
        )
        .header("content-type", "application/json")
        .body(serde_json::to_vec(document).unwrap())
        .unwrap();
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
                Err(status.message.clone())
            }
            Err(other) => panic!("{document}: {other}"),
        }
    }

    /// Whether a file of it is taken.
    fn reads(&self, document: &Value) -> Result<(), String> {
        // Of its own: tests of one program share the place.
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let file = self.place.root().join(format!("document-{number}.yaml"));
        // JSON is YAML.
        std::fs::write(&file, serde_json::to_vec(document).unwrap()).unwrap();
        let mut read = manifests(&["--as-object", "--backend", file.to_str().unwrap()]);
        let read = read.output().unwrap();
        match read.status.code() {
            Some(0) => Ok(()),
            Some(64) => Err(error_of(&read)),
            other => panic!("{other:?}: {}", error_of(&read)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_with_every_key_is_valid_as_file_and_object() {
    let scene = Scene::shared().await;
    let minimal = backend("minimal", "minimal.example");
    for document in [minimal, full()] {
        assert_eq!(scene.reads(&document), Ok(()));
        assert_eq!(scene.takes(&document).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_rejects_what_the_file_reader_rejects() {
    let scene = Scene::shared().await;
    let all = wrong();
    let number = all.len();
    let mut disagreements = Vec::new();
    for (place, value) in all {
        let document = document(place, value.clone());
        let file = scene.reads(&document);
        let object = scene.takes(&document).await;
        if file.is_ok() || object.is_ok() {
            disagreements.push(format!(
                "{place}: {value}: file {file:?}, object {object:?}"
            ));
        }
    }
    assert!(
        disagreements.is_empty(),
        "{} of {number}:\n{}",
        disagreements.len(),
        disagreements.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_begins_nowhere_is_refused_in_an_object() {
    let scene = Scene::shared().await;
    for (place, value) in [
        ("plugin", json!({ "path": "a.wasm" })),
        (
            "plugin",
            json!({ "path": "/a", "verify": { "anyOf": [{ "file": "key.pub" }] } }),
        ),
        (
            "plugin",
            json!({ "reference": "oci://a.b/c:1", "registry": { "caFile": "ca.pem" } }),
        ),
        ("secrets", json!({ "token": { "file": "token" } })),
    ] {
        let document = document(place, value);
        scene.takes(&document).await.unwrap_err();
        // Printed as an object it has full paths.
        let file = scene.place.root().join("relative.yaml");
        std::fs::write(&file, serde_json::to_vec(&document).unwrap()).unwrap();
        let arguments = ["--as-object", "--backend", file.to_str().unwrap()];
        let (object, _) = printed(&mut manifests(&arguments));
        let object: Value = serde_saphyr::from_str(&object).unwrap();
        assert_eq!(scene.takes(&object).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_cannot_be_given_another_name() {
    let scene = Scene::shared().await;
    let mut document = backend("renamed", "before.example");
    scene.apply(&document).await;
    document["spec"]["settings"] = json!({ "a": "b" });
    scene.apply(&document).await;
    document["spec"]["driverName"] = json!("after.example");
    let file = scene.place.root().join("renamed.json");
    std::fs::write(&file, serde_json::to_vec(&document).unwrap()).unwrap();
    let refused = scene.kubectl(&["replace", "-f", file.to_str().unwrap()]);
    let words = error_of(&refused);
    assert!(
        !refused.status.success() && words.contains("cannot change"),
        "{words}"
    );
}
