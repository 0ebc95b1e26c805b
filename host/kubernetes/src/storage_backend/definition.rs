//! The definitions of the two kinds, and a document as an object.

use super::schema;
use serde_json::Value;

const BACKENDS: &str = include_str!("storagebackends.yaml");
const REPORTS: &str = include_str!("storagebackendnodes.yaml");

/// Both definitions.
pub fn definitions() -> Result<[Value; 2], serde_saphyr::Error> {
    let mut backends: Value = serde_saphyr::from_str(BACKENDS)?;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    if let Some(spec) = backends.pointer_mut(spec) {
        *spec = schema::of_spec();
    }
    Ok([backends, serde_saphyr::from_str(REPORTS)?])
}

/// A document as an object: the same fields, without those of files only.
pub fn object_of(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|key, _| ["apiVersion", "kind", "metadata", "spec"].contains(&key.as_str()));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::super::report::{BackendReport, ReportSpec};
    use super::super::status::{Condition, Hosts, Status, Troubled, Version};
    use super::super::{API_VERSION, GROUP, Phase, RolledBackBy};
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// A status with every key: a new key does not compile without being added here.
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

    /// The same for a report.
    fn full_report() -> ReportSpec {
        let text = || "x".to_owned();
        ReportSpec {
            backend: text(),
            host: text(),
            on_node: true,
            seen: text(),
            report: BackendReport {
                uid: text(),
                generation: 1,
                phase: Phase::RolledBack,
                version: Some(text()),
                digest: Some(text()),
                reason: Some(text()),
                rolled_back_by: Some(RolledBackBy::PluginFaults),
                volumes: 1,
            },
        }
    }

    /// The schema has the keys of the value and no others, each with its type: the API server drops unknown keys.
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

    /// The schema at the path of a column; for a list, that of its items.
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
        let [backends, reports] = definitions().unwrap();
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
        let [backends, reports] = definitions().unwrap();
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
        for definition in definitions().unwrap() {
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
