//! The manifests of a backend that is an object, compared with those of a file.

use super::*;

#[test]
fn the_pods_of_an_object_follow_it_and_ask_for_its_secrets() {
    let mut backend = backend(&[Service::Controller], &[Feature::Topology]);
    backend.secrets = vec!["token".to_owned()];
    let of_file = all(&backend, Form::NodeLocal);
    backend.object =
        Some(json!({ "kind": "StorageBackend", "metadata": { "name": "a" }, "spec": {} }));
    let of_object = all(&backend, Form::NodeLocal);
    assert!(of_kind(&of_file, "StorageBackend").is_empty());
    let object = of_kind(&of_object, "StorageBackend")[0];
    assert_eq!(
        object["metadata"]["labels"]["app.kubernetes.io/instance"],
        "a"
    );
    let set = of_kind(&of_object, "DaemonSet")[0];
    let pod = &set["spec"]["template"]["spec"];
    let args = pod["containers"][0]["args"].to_string();
    assert!(
        args.contains("--storage-backends=app.kubernetes.io/instance=a"),
        "{args}"
    );
    assert!(args.contains("--storage-backend-status=on"), "{args}");
    assert!(!args.contains("--backend="), "{args}");
    // The mounter follows the document on its node.
    assert!(
        pod["containers"][1]["args"]
            .to_string()
            .contains("--backend=")
    );
    assert!(!pod["volumes"].to_string().contains("wasmount-a-secrets"));
    let may = |objects: &[Value], resource: &str| {
        let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
        let mut rules = roles
            .iter()
            .flat_map(|role| role["rules"].as_array().unwrap());
        rules
            .find(|rule| {
                rule["resources"]
                    .to_string()
                    .contains(&format!("\"{resource}\""))
            })
            .cloned()
    };
    let secrets = may(&of_object, "secrets").unwrap();
    assert_eq!(secrets["resourceNames"], json!(["wasmount-a-secrets"]));
    // Among backends it may change its own only.
    let status = may(&of_object, "storagebackends/status").unwrap();
    assert_eq!(status["resourceNames"], json!(["a"]));
    let roles = of_kind(&of_object, "ClusterRole");
    let rules = roles[0]["rules"].as_array().unwrap().iter();
    let patched: Vec<_> = rules
        .filter(|rule| rule["resources"] == json!(["storagebackends"]))
        .map(|rule| (&rule["verbs"], &rule["resourceNames"]))
        .collect();
    assert_eq!(
        patched,
        [
            (&json!(["get", "list", "watch"]), &Value::Null),
            (&json!(["patch"]), &json!(["a"])),
        ]
    );
    assert!(may(&of_object, "storagebackendnodes").is_some());
    assert!(may(&of_file, "storagebackendnodes").is_none());
    assert!(may(&of_file, "storagebackends").is_none());
}
