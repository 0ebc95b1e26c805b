//! Values of users stay values.

use super::*;

/// The same objects with every occurrence of a word replaced.
fn replaced(value: Value, from: &str, to: &str) -> Value {
    match value {
        Value::String(text) => text.replace(from, to).into(),
        Value::Array(all) => {
            let all = all.into_iter();
            all.map(|it| replaced(it, from, to)).collect()
        }
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(key, it)| (key, replaced(it, from, to)))
                .collect()
        }
        other => other,
    }
}

fn with(value: &str, form: Form) -> Result<Vec<Value>, ManifestsError> {
    let mut backend = backend(Service::ALL, &[Feature::Topology]);
    backend.pools = [(value.to_owned(), PathBuf::from(format!("/{value}")))].into();
    backend.named_secrets = [value.to_owned()].into();
    backend.document = value.to_owned();
    backend.object = Some(json!({ "metadata": { "name": "a" }, "spec": { "word": value } }));
    let choices = Choices {
        namespace: value.to_owned(),
        image: value.to_owned(),
        sidecar_registry: value.to_owned(),
        fs_type: value.to_owned(),
        kubelet_dir: PathBuf::from(format!("/{value}")),
        ..choices(form)
    };
    let made = manifests(&backend, &choices)?;
    Ok(made.into_iter().map(|manifest| manifest.object).collect())
}

#[test]
fn no_chosen_value_ends_its_string_or_adds_a_field() {
    for form in [Form::NodeLocal, Form::Network] {
        let plain = with("benign", form).unwrap();
        for hostile in [
            "x\n---\nkind: ClusterRoleBinding\n",
            "\", hostPID: true, x: \"",
            "'}]\n  privileged: true # ",
            "{{ namespace }}{% include 'x' %}{# ",
            "\\u0022 \\n \u{85}\u{2028}\u{e9}\u{1f600} <&>",
            "*x &y !!binary |",
            "null",
            "0",
        ] {
            let expected = plain.iter().cloned();
            let expected: Vec<_> = expected.map(|it| replaced(it, "benign", hostile)).collect();
            assert_eq!(with(hostile, form).unwrap(), expected, "{hostile}");
        }
        // JSON does not escape it, and YAML does not accept it.
        let refused = with("\u{7f}", form).unwrap_err();
        assert!(matches!(refused, ManifestsError::Template(_)));
    }
}

#[test]
fn an_expression_of_a_template_is_a_whole_value() {
    use crate::manifests::templates::{CLASSES, PODS, POLICIES, RBAC};
    for template in [CLASSES, RBAC, POLICIES, PODS] {
        for (at, _) in template.match_indices("{{") {
            let (before, rest) = template.split_at(at);
            let (_, after) = rest.split_once("}}").unwrap();
            // Where a value begins and ends in YAML, or a macro or a block on its own line.
            let begins = ["\n", ": ", "- ", "["]
                .iter()
                .any(|it| before.ends_with(it));
            let ends = ["\n", ",", "]", "}"].iter().any(|it| after.starts_with(it));
            assert!(begins && ends, "{}", rest.lines().next().unwrap());
        }
    }
}
