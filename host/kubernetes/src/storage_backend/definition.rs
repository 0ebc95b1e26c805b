//! The definitions of the two kinds, for the API server, and a document as an object. Apart because they are printed (`wasmount manifests
//! --crd`) and never asked for.
//!
//! It does not know what the keys mean.

use super::{GROUP, KIND, REPORT_KIND, VERSION, schema};
use serde_json::{Value, json};

/// Longest texts of a status, in bytes: what the writers of it keep to.
const TEXT_BYTES: u64 = 1024;

/// Both definitions.
pub fn definitions() -> [Value; 2] {
    [backends(), reports()]
}

/// A document as an object: the same type, without what only a file has.
pub fn object_of(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|key, _| ["apiVersion", "kind", "metadata", "spec"].contains(&key.as_str()));
    }
    document
}

fn backends() -> Value {
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    // Of a wide output alone.
    let wide = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path, "priority": 1 });
    let plural = "storagebackends";
    definition(
        plural,
        json!({
            "kind": KIND, "listKind": "StorageBackendList", "plural": plural,
            "singular": "storagebackend", "shortNames": ["sb"], "categories": ["storage"],
        }),
        json!([
            column("Driver", "string", ".spec.driverName"),
            column("Version", "string", ".status.version"),
            column(
                "Ready",
                "string",
                ".status.conditions[?(@.type==\"Ready\")].status"
            ),
            column("Hosts", "string", ".status.ready"),
            column("Digest", "string", ".status.digest"),
            column("Age", "date", ".metadata.creationTimestamp"),
            wide(
                "Reason",
                "string",
                ".status.conditions[?(@.type==\"Degraded\")].reason"
            ),
        ]),
        json!({
            "description": "A storage backend written as a WebAssembly component, served as a CSI driver.",
            "type": "object",
            "required": ["spec"],
            "properties": { "spec": schema::of_spec(), "status": status() },
        }),
        true,
    )
}

fn status() -> Value {
    let text = json!({ "type": "string", "maxLength": TEXT_BYTES });
    let count = json!({ "type": "integer", "minimum": 0 });
    json!({
        "description": "What all hosts make of it, summarised by one of them.",
        "type": "object",
        "properties": {
            "observedGeneration": count,
            "version": text, "digest": text, "ready": text,
            "hosts": {
                "description": "How many hosts there are, and how many of them serve this generation.",
                "type": "object",
                "properties": { "total": count, "current": count },
            },
            "phases": {
                "description": "How many hosts are in each phase.",
                "type": "object",
                "additionalProperties": count,
            },
            "versions": {
                "description": "Which components serve, and on how many hosts; the most frequent first.",
                "type": "array", "maxItems": 10, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "properties": { "digest": text, "version": text, "hosts": count },
                },
            },
            "troubled": {
                "description": "Some of the hosts where something is wrong.",
                "type": "array", "maxItems": 10, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "properties": { "host": text, "phase": text, "reason": text },
                },
            },
            "conditions": {
                "type": "array", "maxItems": 8,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status", "reason", "lastTransitionTime"],
                    "properties": {
                        "type": text, "reason": text, "message": text,
                        "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                        "observedGeneration": count,
                        "lastTransitionTime": { "type": "string", "format": "date-time" },
                    },
                },
            },
        },
    })
}

fn reports() -> Value {
    let text = json!({ "type": "string", "maxLength": TEXT_BYTES });
    let count = json!({ "type": "integer", "minimum": 0 });
    let column =
        |name: &str, path: &str| json!({ "name": name, "type": "string", "jsonPath": path });
    let plural = "storagebackendnodes";
    definition(
        plural,
        json!({
            "kind": REPORT_KIND, "listKind": "StorageBackendNodeList", "plural": plural,
            "singular": "storagebackendnode", "shortNames": ["sbn"],
        }),
        json!([
            column("Backend", ".spec.backend"),
            column("Host", ".spec.host"),
            column("Phase", ".spec.phase"),
            column("Version", ".spec.version"),
            column("Volumes", ".spec.volumes"),
            column("Reason", ".spec.reason"),
        ]),
        json!({
            "description": "How one StorageBackend stands on one host. Written by that host; removed with the StorageBackend.",
            "type": "object",
            "required": ["spec"],
            "properties": { "spec": {
                "type": "object",
                "required": ["backend", "host", "phase"],
                "properties": {
                    "backend": text, "host": text, "phase": text, "version": text, "digest": text,
                    "reason": text, "observedGeneration": count,
                    "rolledBackBy": {
                        "description": "Who had the host go back to the version before: PluginFaults or Administrator.",
                        "type": "string", "maxLength": TEXT_BYTES,
                    },
                    "onNode": {
                        "description": "The host is one of a node, and is called as its Node.",
                        "type": "boolean",
                    },
                    "volumes": {
                        "description": "How many volumes it waits for, where it is to go.",
                        "type": "integer", "minimum": 0,
                    },
                    "seen": {
                        "description": "Another one with each sign of life.",
                        "type": "string", "maxLength": 64,
                    },
                },
            } },
        }),
        false,
    )
}

fn definition(
    plural: &str,
    names: Value,
    columns: Value,
    schema: Value,
    with_status: bool,
) -> Value {
    let mut version = json!({
        "name": VERSION, "served": true, "storage": true,
        "additionalPrinterColumns": columns,
        "schema": { "openAPIV3Schema": schema },
    });
    if let (true, Some(fields)) = (with_status, version.as_object_mut()) {
        fields.insert("subresources".to_owned(), json!({ "status": {} }));
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": { "group": GROUP, "scope": "Cluster", "names": names, "versions": [version] },
    })
}

#[cfg(test)]
mod tests {
    use super::super::API_VERSION;
    use super::*;

    #[test]
    fn both_kinds_are_of_the_whole_cluster_and_only_a_backend_has_a_status() {
        let [backends, reports] = definitions();
        for (definition, plural, has_status) in [
            (&backends, "storagebackends", true),
            (&reports, "storagebackendnodes", false),
        ] {
            assert_eq!(definition["spec"]["scope"], "Cluster");
            assert_eq!(definition["spec"]["names"]["plural"], plural);
            let version = &definition["spec"]["versions"][0];
            assert_eq!(
                format!("{GROUP}/{}", version["name"].as_str().unwrap()),
                API_VERSION
            );
            assert_eq!(version.get("subresources").is_some(), has_status);
        }
        assert_eq!(backends["spec"]["names"]["shortNames"], json!(["sb"]));
    }

    #[test]
    fn an_object_has_no_key_of_a_file() {
        let document =
            json!({ "apiVersion": "a", "kind": "b", "metadata": {}, "spec": {}, "other": 1 });
        let object = object_of(document);
        assert_eq!(
            object,
            json!({ "apiVersion": "a", "kind": "b", "metadata": {}, "spec": {} })
        );
    }
}
