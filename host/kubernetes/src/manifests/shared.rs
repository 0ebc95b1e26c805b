//! The objects that all backends of a cluster share: the namespace, and the definitions of our kinds.
//!
//! They depend on no backend, and the manifests of a backend contain none of them.

use super::{Manifest, ManifestsError};
use crate::RECORD_DEFINITION;
use crate::node_facts::DEFINITION as FACTS_DEFINITION;
use crate::storage_backend::definitions;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Against pruning by Argo CD, Helm and Flux. `kubectl apply --prune` selects by label, and a shared object has no backend's label.
const KEPT: [(&str, &str); 3] = [
    (
        "argocd.argoproj.io/sync-options",
        "Prune=false,Delete=false",
    ),
    ("helm.sh/resource-policy", "keep"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// All shared objects, as `wasmount manifests --shared` prints them.
pub fn shared_manifests(namespace: &str) -> Result<Vec<Manifest>, ManifestsError> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": namespace, "labels": { "pod-security.kubernetes.io/enforce": "privileged" } },
    });
    let definition = |text: &str| {
        let read: Result<Value, _> = serde_saphyr::from_str(text);
        read.map_err(|error| ManifestsError::Template(error.to_string()))
    };
    let mut all = vec![
        kept(
            "The namespace of the backends: deleting it deletes the pods and records of all of them. Pod security `privileged`, for the mounter container \
             and the directories of the node.",
            &object,
        )?,
        kept(
            "Records of controllers (--state kubernetes). Deleting this definition deletes the records of all backends.",
            &definition(RECORD_DEFINITION)?,
        )?,
        kept(
            "What hosts of nodes tell controllers about their nodes (`grants.nodes`). They tell it again after this definition was deleted.",
            &definition(FACTS_DEFINITION)?,
        )?,
    ];
    all.extend(definition_manifests()?);
    Ok(all)
}

/// The definitions of StorageBackend objects only, as `wasmount manifests --crd` prints them.
pub fn definition_manifests() -> Result<Vec<Manifest>, ManifestsError> {
    let [backends, reports] =
        definitions().map_err(|error| ManifestsError::Template(error.to_string()))?;
    Ok(vec![
        kept(
            "Backends as objects (--storage-backends). Deleting this definition deletes all of them, as soon as none of their volumes is staged.",
            &backends,
        )?,
        kept(
            "What each host reports about a backend: written by hosts, summarised in the status of the StorageBackend.",
            &reports,
        )?,
    ])
}

fn kept(comment: &str, object: &impl Serialize) -> Result<Manifest, ManifestsError> {
    let mut manifest = Manifest::new(comment, object)?;
    let annotations = json!({ "metadata": { "annotations": BTreeMap::from(KEPT) } });
    json_patch::merge(&mut manifest.object, &annotations);
    Ok(manifest)
}
