//! The definitions of the two kinds, for the API server, and a document as an object.

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
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let plural = "storagebackendnodes";
    definition(
        plural,
        json!({
            "kind": REPORT_KIND, "listKind": "StorageBackendNodeList", "plural": plural,
            "singular": "storagebackendnode", "shortNames": ["sbn"],
        }),
        json!([
            column("Backend", "string", ".spec.backend"),
            column("Host", "string", ".spec.host"),
            column("Phase", "string", ".spec.phase"),
            column("Version", "string", ".spec.version"),
            column("Volumes", "integer", ".spec.volumes"),
            column("Reason", "string", ".spec.reason"),
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
    use super::super::report::ReportSpec;
    use super::super::status::{Condition, Hosts, Status, Troubled, Version};
    use super::super::{API_VERSION, Phase, RolledBackBy};
    use super::*;
    use jiff::Timestamp;
    use std::collections::BTreeSet;

    /// One with every key: a new one does not compile without being here.
    fn full_status() -> Status {
        let text = || "x".to_owned();
        Status {
            observed_generation: 1,
            version: Some(text()),
            digest: Some(text()),
            ready: text(),
            hosts: Hosts {
                total: 1,
                current: 1,
            },
            phases: [(text(), 1)].into(),
            versions: vec![Version {
                digest: text(),
                version: text(),
                hosts: 1,
            }],
            troubled: vec![Troubled {
                host: text(),
                phase: text(),
                reason: text(),
            }],
            conditions: vec![Condition {
                kind: text(),
                status: text(),
                reason: text(),
                message: text(),
                observed_generation: 1,
                last_transition_time: Timestamp::UNIX_EPOCH,
            }],
        }
    }

    /// The same of a report.
    fn full_report() -> ReportSpec {
        let text = || "x".to_owned();
        ReportSpec {
            backend: text(),
            host: text(),
            phase: Phase::RolledBack,
            on_node: true,
            observed_generation: 1,
            version: Some(text()),
            digest: Some(text()),
            reason: Some(text()),
            rolled_back_by: Some(RolledBackBy::PluginFaults),
            volumes: 1,
            seen: text(),
        }
    }

    /// The schema has the keys of the value and no others, and of each its type: the API server drops what it does not know.
    fn has_all_of(schema: &Value, value: &Value, at: &str) {
        let kind = match value {
            Value::Object(fields) => {
                if let Some(properties) = schema["properties"].as_object() {
                    let known: BTreeSet<_> = properties.keys().collect();
                    assert_eq!(known, fields.keys().collect(), "{at}");
                    for (key, value) in fields {
                        has_all_of(&properties[key], value, &format!("{at}.{key}"));
                    }
                } else {
                    for value in fields.values() {
                        has_all_of(&schema["additionalProperties"], value, at);
                    }
                }
                "object"
            }
            Value::Array(items) => {
                assert!(!items.is_empty(), "{at}");
                for item in items {
                    has_all_of(&schema["items"], item, &format!("{at}[]"));
                }
                "array"
            }
            Value::String(_) => "string",
            Value::Number(_) => "integer",
            Value::Bool(_) => "boolean",
            Value::Null => panic!("{at} is null"),
        };
        assert_eq!(schema["type"], kind, "{at}");
    }

    /// What the path of a column leads to; of a list, to one of its items.
    fn at_path<'a>(schema: &'a Value, path: &str) -> &'a Value {
        let mut filters = path.split(['[', ']']);
        let mut at = schema;
        while let Some(keys) = filters.next() {
            for key in keys.split('.').filter(|key| !key.is_empty()) {
                at = &at["properties"][key];
            }
            if filters.next().is_some() {
                at = &at["items"];
            }
        }
        at
    }

    #[test]
    fn both_kinds_are_cluster_scoped_and_one_has_a_status() {
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
    fn the_schema_has_every_key_that_is_written_and_no_other() {
        let [backends, reports] = definitions();
        let schema = |definition: &Value, part: &str| {
            let version = &definition["spec"]["versions"][0];
            version["schema"]["openAPIV3Schema"]["properties"][part].clone()
        };
        let status = serde_json::to_value(full_status()).unwrap();
        has_all_of(&schema(&backends, "status"), &status, "status");
        let report = serde_json::to_value(full_report()).unwrap();
        has_all_of(&schema(&reports, "spec"), &report, "spec");
    }

    #[test]
    fn every_column_shows_a_key_of_the_schema() {
        for definition in definitions() {
            let version = &definition["spec"]["versions"][0];
            let columns = version["additionalPrinterColumns"].as_array().unwrap();
            assert!(columns.len() > 5, "{columns:?}");
            for column in columns {
                let path = column["jsonPath"].as_str().unwrap();
                // Every object has it.
                if path == ".metadata.creationTimestamp" {
                    continue;
                }
                let shown = at_path(&version["schema"]["openAPIV3Schema"], path);
                assert_eq!(shown["type"], column["type"], "{path}");
            }
        }
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
