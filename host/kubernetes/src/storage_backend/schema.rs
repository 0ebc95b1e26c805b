//! The schema of `spec` for the API server: structural (KEP-1979), without other keywords of JSON Schema.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use serde_json::{Map, Value, json};
use wasmount_core::document::raw;

/// Keywords that a structural schema must not have, or that would change objects: a `default` is written into each object.
const WITHOUT: [&str; 4] = ["$schema", "default", "format", "title"];

/// The schema of `spec`.
pub(super) fn of_spec() -> Value {
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
    if let Some(Value::Array(words)) = keywords.get_mut("enum") {
        words.retain(|it| !it.is_null());
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
    use super::*;

    fn visit(schema: &Value, at: &str, look: &mut impl FnMut(&str, &Map<String, Value>)) {
        let Value::Object(keywords) = schema else {
            return;
        };
        look(at, keywords);
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            for (key, below) in properties {
                visit(below, &format!("{at}.{key}"), look);
            }
        }
        for below in ["items", "additionalProperties"] {
            if let Some(schema) = keywords.get(below) {
                visit(schema, &format!("{at}.{below}"), look);
            }
        }
    }

    #[test]
    fn every_schema_field_has_one_type_and_a_description() {
        let mut seen = 0;
        visit(&of_spec(), "spec", &mut |at, keywords| {
            seen += 1;
            let typed = keywords.get("type").is_some_and(Value::is_string)
                || keywords.contains_key("x-kubernetes-int-or-string");
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
        let schema = of_spec();
        assert_eq!(schema["required"], json!(["driverName", "plugin"]));
        let properties = &schema["properties"];
        assert_eq!(properties["plugin"].get("required"), None);
        let grants = &properties["grants"]["properties"];
        assert_eq!(
            grants["pools"]["additionalProperties"]["required"],
            json!(["path"])
        );
        assert_eq!(grants["filesystems"]["items"]["required"], json!(["type"]));
        assert_eq!(properties["limits"].get("required"), None);
    }

    #[test]
    fn rules_that_are_no_types_are_there() {
        let schema = of_spec();
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
