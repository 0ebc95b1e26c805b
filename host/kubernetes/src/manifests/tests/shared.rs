//! Which objects belong to one backend, and which are shared.

use super::*;

/// The fields by which the API server identifies an object.
fn identity(object: &Value) -> [String; 4] {
    [
        "/apiVersion",
        "/kind",
        "/metadata/namespace",
        "/metadata/name",
    ]
    .map(|pointer| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    })
}

/// A backend with every feature, of this name.
fn named(name: &str) -> Backend {
    let mut backend = backend(Service::ALL, &[Feature::Topology]);
    backend.name = name.to_owned();
    backend.driver = DriverName::parse(format!("{name}.example")).unwrap();
    backend.csi_driver =
        csi_driver(&backend.driver, &backend.capabilities, &Default::default()).unwrap();
    backend.object = Some(json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend", "metadata": { "name": name },
    }));
    backend
}

#[test]
fn no_object_of_a_backend_is_shared_or_of_another() {
    for forms in [
        [Form::NodeLocal, Form::NodeLocal],
        [Form::NodeLocal, Form::Network],
        [Form::Network, Form::Network],
    ] {
        let mut seen = BTreeSet::new();
        let shared = shared_manifests("storage").unwrap();
        let shared = shared.into_iter().map(|manifest| manifest.object);
        let of_backends = ["a", "b"].iter().zip(forms);
        let of_backends = of_backends.flat_map(|(name, form)| all(&named(name), form));
        for object in shared.chain(of_backends) {
            let identity = identity(&object);
            assert!(seen.insert(identity.clone()), "{identity:?} {forms:?}");
        }
    }
}

#[test]
fn shared_objects_are_kept_from_pruning() {
    let shared = shared_manifests("storage").unwrap();
    let seen: Vec<_> = shared
        .iter()
        .map(|manifest| {
            let metadata = &manifest.object["metadata"];
            assert_eq!(
                metadata["annotations"],
                json!({
                    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
                    "helm.sh/resource-policy": "keep",
                    "kustomize.toolkit.fluxcd.io/prune": "disabled",
                })
            );
            assert_eq!(
                metadata["labels"]["app.kubernetes.io/instance"],
                Value::Null
            );
            let [_, kind, _, name] = identity(&manifest.object);
            format!("{kind} {name}")
        })
        .collect();
    assert_eq!(
        seen,
        [
            "Namespace storage",
            "CustomResourceDefinition backendrecords.wasmount.io",
            "CustomResourceDefinition nodefacts.wasmount.io",
            "CustomResourceDefinition storagebackends.wasmount.io",
            "CustomResourceDefinition storagebackendnodes.wasmount.io",
        ]
    );
}
