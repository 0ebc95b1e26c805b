//! What the service accounts of a backend may write in kinds that all backends share, and which changes of snapshots are denied to every account.

use super::sidecars::{sidecar, sidecars};
use super::*;

/// Verbs and names of each rule about a resource.
fn rules(objects: &[Value], resource: &str) -> Vec<(Value, Value)> {
    let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
    let all = roles
        .iter()
        .flat_map(|role| role["rules"].as_array().unwrap());
    all.filter(|rule| rule["resources"] == json!([resource]))
        .map(|rule| (rule["verbs"].clone(), rule["resourceNames"].clone()))
        .collect()
}

/// The policies with this name suffix: the resources that they match, and their rules.
fn policy(objects: &[Value], part: &str) -> Option<(Vec<String>, String)> {
    let policies = of_kind(objects, "ValidatingAdmissionPolicy");
    let name = format!("wasmount-a-{part}");
    let policy = policies.iter().find(|it| it["metadata"]["name"] == name)?;
    let spec = &policy["spec"];
    let matched = spec["matchConstraints"]["resourceRules"]
        .as_array()
        .unwrap();
    let resources = matched
        .iter()
        .flat_map(|rule| rule["resources"].as_array().unwrap())
        .map(|it| it.as_str().unwrap().to_owned());
    let bindings = of_kind(objects, "ValidatingAdmissionPolicyBinding");
    let binding = bindings.iter().find(|it| it["spec"]["policyName"] == name);
    assert_eq!(
        binding.unwrap()["spec"]["validationActions"],
        json!(["Deny"])
    );
    Some((resources.collect(), spec["validations"].to_string()))
}

fn everything() -> Backend {
    let mut backend = backend(
        Service::ALL,
        &[Feature::Topology, Feature::NodeOnlyExpansion],
    );
    backend.object = Some(json!({ "metadata": { "name": "a" } }));
    backend
}

#[test]
fn leases_are_written_by_name_and_made_by_policy() {
    let named = |name: &str| (json!(["get", "update"]), json!([name]));
    let created = (json!(["create"]), Value::Null);
    // For the selector app.kubernetes.io/instance=a.
    let summary = crate::storage_backend::lease(Some("app.kubernetes.io/instance=a"));
    let network = all(&everything(), Form::Network);
    assert_eq!(
        rules(&network, "leases"),
        [
            named("wasmount-a.example"),
            created.clone(),
            named(&summary)
        ]
    );
    let local = all(&everything(), Form::NodeLocal);
    assert_eq!(
        rules(&local, "leases"),
        [
            named(&summary),
            created,
            named("external-attacher-leader-a-example"),
            named("external-resizer-a-example"),
        ]
    );
    let (_, message) = policy(&local, "own-objects").unwrap();
    let names = format!(
        "request.name in ['{summary}', 'external-attacher-leader-a-example', 'external-resizer-a-example']"
    );
    assert!(message.contains(&names), "{message}");
}

#[test]
fn every_kind_that_backends_have_in_common_is_guarded() {
    let network = policy(&all(&everything(), Form::Network), "own-objects");
    let (resources, _) = network.unwrap();
    assert_eq!(
        resources,
        [
            "backendrecords",
            "leases",
            "csistoragecapacities",
            "storagebackendnodes"
        ]
    );
    let local = policy(&all(&everything(), Form::NodeLocal), "own-objects");
    let (resources, _) = local.unwrap();
    assert_eq!(
        resources,
        ["leases", "csistoragecapacities", "storagebackendnodes"]
    );
    // It writes no such objects.
    let inline = all(&backend(&[Service::NodePublish], &[]), Form::Network);
    assert_eq!(policy(&inline, "own-objects"), None);
}

#[test]
fn snapshots_without_a_node_are_refused_in_the_node_form() {
    let local = all(&everything(), Form::NodeLocal);
    let (resources, message) = policy(&local, "labelled-contents").unwrap();
    assert_eq!(resources, ["volumesnapshotcontents"]);
    assert!(
        message.contains("snapshot.storage.kubernetes.io/managed-by=<node>"),
        "{message}"
    );
    assert!(of_kind(&local, "VolumeGroupSnapshotClass").is_empty());
    let warned = warnings(&everything(), &choices(Form::NodeLocal)).join("\n");
    assert!(warned.contains("groups of snapshots"), "{warned}");

    let network = all(&everything(), Form::Network);
    assert_eq!(policy(&network, "labelled-contents"), None);
    assert_eq!(of_kind(&network, "VolumeGroupSnapshotClass").len(), 1);
    // The node of a volume is not known: one snapshotter handles all volumes.
    let services = [Service::Controller, Service::NodeStage, Service::Snapshots];
    let of_one_node = backend(&services, &[]);
    assert_eq!(
        policy(&all(&of_one_node, Form::NodeLocal), "labelled-contents"),
        None
    );
    let snapshotter = sidecars(&of_one_node, Form::NodeLocal).pop().unwrap();
    assert_eq!(
        snapshotter,
        sidecar(
            "csi-snapshotter",
            &["--extra-create-metadata", "--leader-election"]
        )
    );
}

#[test]
fn facts_of_nodes_are_written_and_read_by_those_who_need_them() {
    let verbs = |objects: &[Value]| rules(objects, "nodefacts");
    let mut backend = backend(Service::ALL, &[]);
    assert_eq!(verbs(&all(&backend, Form::Network)), []);
    backend.tells_facts = true;
    let network = all(&backend, Form::Network);
    let expected = [json!(["get", "create", "patch"]), json!(["get"])];
    assert_eq!(verbs(&network), expected.map(|verbs| (verbs, Value::Null)));
    for (part, words) in [
        ("own-node", "object.spec.node == variables.node"),
        (
            "own-objects",
            "['a.example'].exists(it, request.name.startsWith(it",
        ),
    ] {
        let (resources, validations) = policy(&network, part).unwrap();
        assert!(resources.contains(&"nodefacts".to_owned()), "{resources:?}");
        assert!(validations.contains(words), "{validations}");
    }
    // One that registers nodes follows them all.
    backend.registers_nodes = true;
    let expected = [
        json!(["get", "create", "patch"]),
        json!(["get", "list", "watch"]),
    ];
    let network = all(&backend, Form::Network);
    assert_eq!(verbs(&network), expected.map(|verbs| (verbs, Value::Null)));
    // A host of both services tells itself.
    assert_eq!(verbs(&all(&backend, Form::NodeLocal)), []);
}
