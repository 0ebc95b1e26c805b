//! Objects as a stream of YAML documents.

use super::{Manifest, ManifestsError};
use serde::ser::Error;
use serde_json::Value;

/// Longest line of a comment, in characters.
const WIDTH: usize = 140;

/// The whole stream.
pub fn to_yaml(manifests: &[Manifest]) -> Result<String, ManifestsError> {
    let mut text = String::new();
    for Manifest { comment, object } in manifests {
        text.push_str("---\n");
        for line in wrapped(comment) {
            text.push_str(&format!("# {line}\n"));
        }
        let yaml = serde_saphyr::to_string(&without_nothing(object.clone()))
            .map_err(serde_json::Error::custom)?;
        text.push_str(&format!("{}\n", yaml.trim_end()));
    }
    Ok(text)
}

/// Removes nulls. Empty maps stay: `emptyDir: {}` has a meaning.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nothing(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

fn wrapped(comment: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in comment.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.len() + word.len() >= WIDTH {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}
