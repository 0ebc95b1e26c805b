//! The definitions of the two kinds, and a document as an object. The schema of `spec` is structural (KEP-1979), without other keywords of JSON Schema.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use serde_json::{Map, Value, json};
use wasmount_core::document::raw;

const BACKENDS: &str = include_str!("storagebackends.yaml");
const REPORTS: &str = include_str!("storagebackendnodes.yaml");

/// Keywords that a structural schema must not have, or that would change objects: a `default` is written into each object.
const WITHOUT: [&str; 4] = ["$schema", "default", "format", "title"];

/// Both definitions.
pub fn definitions() -> Result<[Value; 2], serde_saphyr::Error> {
    let mut backends: Value = serde_saphyr::from_str(BACKENDS)?;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    if let Some(spec) = backends.pointer_mut(spec) {
        *spec = schema_of_spec();
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

/// The schema of `spec`.
fn schema_of_spec() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings.with_transform(structural).into_generator();
    generator.into_root_schema_for::<raw::Spec>().to_value()
}

fn structural(schema: &mut Schema) {
    transform_subschemas(&mut structural, schema);
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    // Unknown keys: the API server drops them, or rejects them if the client requests strict validation, as kubectl does.
    if keywords.get("additionalProperties") == Some(&Value::Bool(false)) {
        keywords.remove("additionalProperties");
    }
    for keyword in WITHOUT {
        // A key of the document may have the same name; then its value is a schema below `properties`, which is not visited as keywords.
        keywords.remove(keyword);
    }
    without_null(keywords);
    if let Some(value) = keywords.remove("const") {
        keywords.insert("enum".to_owned(), json!([value]));
    }
}

/// An optional key is absent, never null: the API server drops nulls of keys that are not nullable.
fn without_null(keywords: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|it| it != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            keywords.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum") {
        values.retain(|it| !it.is_null());
    }
    for either in ["anyOf", "oneOf"] {
        let Some(Value::Array(forms)) = keywords.get_mut(either) else {
            continue;
        };
        let before = forms.len();
        forms.retain(|form| form.get("type").is_none_or(|it| it != "null"));
        if forms.len() < before
            && let [Value::Object(only)] = forms.as_slice()
        {
            let only = only.clone();
            keywords.remove(either);
            for (keyword, value) in only {
                // The description of the key takes precedence over that of its type.
                keywords.entry(keyword).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{BackendReport, ReportSpec};
    use super::super::rollout::state::{RolloutPart, RolloutPhase, RolloutStatus};
    use super::super::summary::{Condition, Hosts, Status, Troubled, Version};
    use super::super::{API_VERSION, Phase, RolledBackBy};
    use super::*;
    use jiff::Timestamp;
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
            rollout: Some(RolloutStatus {
                candidate: text(),
                attempt: 1,
                step: 1,
                steps: 1,
                phase: RolloutPhase::Failed,
                progress: text(),
                since: Timestamp::UNIX_EPOCH,
                served_since: Some(Timestamp::UNIX_EPOCH),
                bound: Some(1),
                message: text(),
                command: Some(text()),
                stable: json!({}),
                previous: Some(json!({})),
            }),
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
            short_digest: Some(text()),
            report: BackendReport {
                uid: text(),
                generation: 1,
                phase: Phase::RolledBack,
                version: Some(text()),
                digest: Some(text()),
                reason: Some(text()),
                rolled_back_by: Some(RolledBackBy::PluginFaults),
                last_fault: Some(Timestamp::UNIX_EPOCH),
                volumes: 1,
                rollout: Some(RolloutPart {
                    candidate: text(),
                    attempt: 1,
                    takes: true,
                    selected: Some(1),
                }),
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
                format!("wasmount.io/{}", version["name"].as_str().unwrap()),
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
                // kubectl shows the time since a date.
                let (key, expected) = match column["type"].as_str().unwrap() {
                    "date" => ("format", "date-time"),
                    kind => ("type", kind),
                };
                assert_eq!(shown[key], expected, "{path}");
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

    fn visit(schema: &Value, at: &str, check: &mut impl FnMut(&str, &Map<String, Value>)) {
        let Value::Object(keywords) = schema else {
            return;
        };
        check(at, keywords);
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            for (key, below) in properties {
                visit(below, &format!("{at}.{key}"), check);
            }
        }
        for below in ["items", "additionalProperties"] {
            if let Some(schema) = keywords.get(below) {
                visit(schema, &format!("{at}.{below}"), check);
            }
        }
    }

    #[test]
    fn every_schema_field_has_one_type_and_a_description() {
        let mut seen = 0;
        visit(&schema_of_spec(), "spec", &mut |at, keywords| {
            seen += 1;
            let typed = keywords.get("type").is_some_and(Value::is_string)
                || keywords.contains_key("x-kubernetes-int-or-string")
                || keywords.contains_key("x-kubernetes-preserve-unknown-fields");
            assert!(typed, "{at}: {keywords:?}");
            for keyword in WITHOUT.iter().chain(&["$ref", "const", "oneOf"]) {
                assert!(!keywords.contains_key(*keyword), "{at} has {keyword}");
            }
            assert_ne!(keywords.get("additionalProperties"), Some(&json!(false)));
        });
        assert!(seen > 80, "{seen}");
    }

    #[test]
    fn keys_that_a_document_needs_are_required_and_no_others() {
        let schema = schema_of_spec();
        assert_eq!(schema["required"], json!(["driverName", "plugin"]));
        let properties = &schema["properties"];
        assert_eq!(properties["plugin"].get("required"), None);
        let grants = &properties["grants"]["properties"];
        let pool = &grants["pools"]["additionalProperties"];
        assert_eq!(pool.get("required"), None);
        let one = &pool["x-kubernetes-validations"][0];
        assert_eq!(one["rule"], "has(self.path) != has(self.mount)");
        assert_eq!(grants["filesystems"]["items"]["required"], json!(["type"]));
        assert_eq!(properties["limits"].get("required"), None);
    }

    #[test]
    fn rules_that_are_no_types_are_there() {
        let schema = schema_of_spec();
        let properties = &schema["properties"];
        let immutable = &properties["driverName"]["x-kubernetes-validations"][0];
        assert_eq!(immutable["rule"], "self == oldSelf");
        let one = &properties["plugin"]["x-kubernetes-validations"][0];
        assert_eq!(one["rule"], "has(self.path) != has(self.reference)");
        let registry = &properties["plugin"]["properties"]["registry"];
        let secret = &registry["properties"]["credentials"];
        assert_eq!(
            secret["x-kubernetes-validations"][0]["rule"],
            "has(self.file) != has(self.secret)"
        );
    }
}
