//! A host that has what `wasmount manifests --storage-backends` prints for it and nothing else: it serves an object from its first day to its
//! last, and writes of no other node.

use crate::server::{Server, manifests, printed};
use crate::storage_backends::scene::{Scene, soon};
use crate::storage_backends::serving::{Serving, object, served};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use wasmount_tests::documents;
use wasmount_tests::pod_token::token_on;
use wasmount_tests::root::needs_root;
use xtask::cluster;

const NAMESPACE: &str = "wasmount-system";
const BACKEND: &str = "rights";
const ACCOUNT: &str = "wasmount-rights-node";
/// What the printed pods follow.
const SELECTOR: &str = "app.kubernetes.io/instance=rights";
/// Of what is printed: the pods have no node here, and their object names a file of theirs.
const APPLIED: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// By which the hosts of that selector elect one: the first digits of its hash.
const LEASE: &str = "wasmount.storagebackends.bf2a63be";

/// A right: group, resource, subresource, name of the object, verbs.
type Right = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Each right of docs/storage-backends.md, "Rights", of a host that may be elected.
const RIGHTS: [Right; 8] = [
    (
        "wasmount.io",
        "storagebackends",
        "",
        "",
        &["get", "list", "watch"],
    ),
    ("wasmount.io", "storagebackends", "", BACKEND, &["patch"]),
    (
        "wasmount.io",
        "storagebackends",
        "status",
        BACKEND,
        &["get", "patch"],
    ),
    (
        "wasmount.io",
        "storagebackendnodes",
        "",
        "",
        &["get", "create", "patch", "list", "watch", "delete"],
    ),
    ("", "nodes", "", "", &["get"]),
    (
        "coordination.k8s.io",
        "leases",
        "",
        LEASE,
        &["get", "update"],
    ),
    ("coordination.k8s.io", "leases", "", "", &["create"]),
    ("events.k8s.io", "events", "", "", &["create"]),
];
/// Some that it has not.
const NO_RIGHTS: [Right; 7] = [
    (
        "wasmount.io",
        "storagebackends",
        "",
        BACKEND,
        &["create", "update", "delete"],
    ),
    ("wasmount.io", "storagebackends", "", "other", &["patch"]),
    (
        "wasmount.io",
        "storagebackends",
        "status",
        BACKEND,
        &["update"],
    ),
    (
        "wasmount.io",
        "storagebackends",
        "status",
        "other",
        &["patch"],
    ),
    (
        "coordination.k8s.io",
        "leases",
        "",
        "other",
        &["get", "update", "patch", "delete"],
    ),
    ("", "secrets", "", "", &["get", "list", "watch"]),
    ("", "nodes", "", "", &["create", "delete"]),
];

/// Applies what is printed for a backend of this name.
fn admit(scene: &Scene, folder: &Path) {
    let (document, _) = documents::directory_of_its_own(folder, "rights.example").unwrap();
    let text = std::fs::read_to_string(&document).unwrap();
    let named = text.replace(
        "{ name: rights.example }",
        &format!("{{ name: {BACKEND} }}"),
    );
    assert_ne!(named, text);
    std::fs::write(&document, named).unwrap();
    let document = document.to_str().unwrap();
    let more = ["--storage-backends", "--topology", "node-local"];
    let (text, _) = printed(&mut manifests(
        &[&["--backend", document], &more[..]].concat(),
    ));
    // A line of its own: patterns of keys end alike.
    let text = format!("\n{text}");
    let all = text.split("\n---\n").filter(|it| !it.trim().is_empty());
    let all = all.map(|it| serde_saphyr::from_str::<Value>(it).unwrap());
    let items: Vec<Value> = all
        .filter(|it| APPLIED.contains(&it["kind"].as_str().unwrap()))
        .collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    Server::apply(scene, &list.to_string());
}

/// A Node, and the kubeconfig that a pod of the account has there.
async fn kubeconfig_on(scene: &Scene, node: &str) -> PathBuf {
    let nodes = Api::<Node>::all(scene.client.clone());
    let made = serde_json::from_value(json!({ "metadata": { "name": node } })).unwrap();
    nodes.create(&PostParams::default(), &made).await.unwrap();
    let token = token_on(&scene.client, NAMESPACE, ACCOUNT, node)
        .await
        .unwrap();
    let path = scene.plane.kubeconfig_of(node, &token).unwrap();
    // A pod has its namespace in a file beside its token.
    let text = std::fs::read_to_string(&path).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Whether the API server would let this client do that.
async fn may(client: &Client, what: (&str, &str, &str, &str), verb: &str) -> bool {
    let (group, resource, subresource, name) = what;
    let namespace = if group == "coordination.k8s.io" {
        NAMESPACE
    } else {
        ""
    };
    let review: SelfSubjectAccessReview = serde_json::from_value(json!({ "spec": {
        "resourceAttributes": {
            "group": group, "resource": resource, "subresource": subresource,
            "name": name, "verb": verb, "namespace": namespace,
        },
    } }))
    .unwrap();
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer.unwrap().status.unwrap().allowed
}

/// A report of this host, as the host itself writes it.
fn report(name: &str, host: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackendNode",
        "metadata": { "name": name },
        "spec": { "backend": BACKEND, "host": host, "phase": phase },
    })
}

async fn write(
    reports: &Api<DynamicObject>,
    name: &str,
    host: &str,
    phase: &str,
) -> Result<(), (u16, String)> {
    let parameters = PatchParams::apply("somebody").force();
    let patch = Patch::Apply(report(name, host, phase));
    match reports.patch(name, &parameters, &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_printed_rights_suffice_for_one_node_only() {
    needs_root();
    // A namespace and its policies are of the whole API server.
    let scene = Scene::start().await;
    let folder = tempfile::tempdir().unwrap();
    admit(&scene, folder.path());
    let kubeconfig = kubeconfig_on(&scene, "rights-a").await;
    let other = kubeconfig_on(&scene, "rights-b").await;
    let own = cluster::client(&kubeconfig).await.unwrap();
    for (group, resource, subresource, name, verbs) in RIGHTS {
        for verb in verbs {
            let what = (group, resource, subresource, name);
            assert!(may(&own, what, verb).await, "{verb} {what:?}");
        }
    }
    for (group, resource, subresource, name, verbs) in NO_RIGHTS {
        for verb in verbs {
            let what = (group, resource, subresource, name);
            assert!(!may(&own, what, verb).await, "{verb} {what:?}");
        }
    }

    // From the first day to the last, by these rights: status, finalizer and lease are written by this host alone.
    let mut serving = Serving::start_by(&kubeconfig, SELECTOR, "rights-a");
    let mut wanted = object(BACKEND, "rights.example");
    wanted["metadata"]["labels"] = json!({ "app.kubernetes.io/instance": BACKEND });
    scene.apply(&wanted).await;
    served(&scene, BACKEND).await;
    wanted["spec"]["limits"] = json!({ "time": "50s" });
    scene.apply(&wanted).await;
    served(&scene, BACKEND).await;

    // Another node's pod may say what it has to say, and touches no word of this one.
    let reports_of =
        |client: &Client| Api::<DynamicObject>::all_with(client.clone(), &Scene::report_kind());
    let theirs = reports_of(&cluster::client(&other).await.unwrap());
    let ours = reports_of(&own);
    // The policy takes a moment to be in force.
    let (code, words) = soon("the policy", async || {
        write(&theirs, "rights.policy", "rights-a", "Serving")
            .await
            .err()
    })
    .await;
    assert_eq!(code, 403);
    assert!(words.contains("reports of its own node only"), "{words}");
    let told = scene.reports().list(&ListParams::default()).await.unwrap();
    let mut names = told.items.into_iter().filter_map(|it| it.metadata.name);
    // The other one may have written before the policy was in force.
    let name = names.find(|it| it != "rights.policy").unwrap();
    for host in ["rights-a", "rights-b"] {
        let (code, words) = write(&theirs, &name, host, "Refused").await.unwrap_err();
        assert_eq!(code, 403, "{host}: {words}");
    }
    write(&theirs, "rights.of-b", "rights-b", "Serving")
        .await
        .unwrap();
    // Nor does it take the name of what a host says of another backend.
    let taken = write(&theirs, "other.of-b", "rights-b", "Serving").await;
    let (code, words) = taken.unwrap_err();
    assert_eq!(code, 403);
    assert!(
        words.contains("writes no storagebackendnodes of other backends"),
        "{words}"
    );

    // What a host does after hours: it looks whether a silent host's Node is there, and takes away what it said.
    let nodes = Api::<Node>::all(own.clone());
    assert!(nodes.get_metadata_opt("gone").await.unwrap().is_none());
    ours.delete("rights.of-b", &DeleteParams::default())
        .await
        .unwrap();

    scene.delete(BACKEND).await;
    scene.until_gone(BACKEND).await;
    serving.until_no_socket("rights.example").await;
    let log = serving.host.log();
    assert!(!log.contains("forbidden"), "{log}");
}
