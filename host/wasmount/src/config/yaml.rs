//! Parses the text of a document; every error becomes one line that names key and rule.
//!
//! Strings must be written as strings (`"8080"`): the same document is valid as a custom resource, where the API server requires it.

use super::complaint::Complaint;
use super::places::Places;
use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};
use std::path::Path;
use wasmount_core::document::{KeyPath, StorageBackend, raw};

/// How similar (Jaro-Winkler, 0 to 1) a key must be to be suggested: `pool` for `pools` has 0.96, unrelated words stay below 0.7.
const ALIKE: f64 = 0.75;

/// Reads a document, and the locations of its keys for checks across documents.
pub(super) fn parse(file: &Path, text: &str) -> Result<(StorageBackend, Places), Complaint> {
    let options = serde_saphyr::options! { with_snippet: false, no_schema: true };
    let places = Places::of(text);
    let complain = |line, key, reason| Complaint {
        file: file.to_owned(),
        line,
        key,
        reason,
    };
    let document: raw::Document =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.location().map(|location| location.line());
            let (key, reason) = explain(&error, &places);
            complain(line, key, reason)
        })?;
    let checked = StorageBackend::try_from(document).map_err(|invalid| {
        let line = places.line_of(&invalid.key);
        complain(line, Some(invalid.key), invalid.reason)
    })?;
    Ok((checked, places))
}

/// Key and reason of a parser's error. No branch repeats a value.
fn explain(error: &Error, places: &Places) -> (Option<KeyPath>, String) {
    let location = error.location().unwrap_or(Location::UNKNOWN);
    let key = || places.key_at(location).cloned();
    let value = || places.value_at(location).cloned().or_else(key);
    match error {
        Error::SerdeUnknownField {
            expected, field, ..
        } => {
            // If the rest of the text is not YAML, no key has a location; only its name is known.
            let key = key().unwrap_or_else(|| KeyPath::default().key(field));
            (
                Some(key),
                format!("unknown key; {}", nearest(field, expected)),
            )
        }
        Error::SerdeMissingField { field, .. } => {
            let parent = places.value_at(location).cloned().unwrap_or_default();
            (Some(parent.key(*field)), "is missing".to_owned())
        }
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => (
            value(),
            format!("unknown word; {}", nearest(variant, expected)),
        ),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            (value(), format!("must be {expected}"))
        }
        Error::Unexpected { expected, .. } => (value(), format!("must be {}", plain(expected))),
        Error::InvalidScalar { ty, .. } => (value(), format!("must be {}", plain(ty))),
        Error::InvalidBooleanStrict { .. } => (value(), "must be `true` or `false`".to_owned()),
        Error::NullIntoString { .. } => (value(), "has no value".to_owned()),
        Error::QuotingRequired { .. } => (
            value(),
            "must be text; put it in quotes, such as \"8080\"".to_owned(),
        ),
        Error::DuplicateMappingKey { key: name, .. } => {
            let name = name.as_deref().unwrap_or_default();
            (
                None,
                format!("the key `{name}` stands here for the second time"),
            )
        }
        Error::MultipleDocuments { .. } => (
            None,
            "a second document begins here; write one file for each backend".to_owned(),
        ),
        Error::Eof { .. } => (None, "ends too early: something is missing".to_owned()),
        other => (
            None,
            format!(
                "is not right YAML: {}",
                UserMessageFormatter.format_message(other)
            ),
        ),
    }
}

/// Replaces the parser's names for kinds of values by names that an administrator knows.
fn plain(kind: &str) -> &str {
    match kind {
        "mapping start" => "a group of keys",
        "sequence start" => "a list",
        "string scalar" => "text",
        "bool" | "boolean" => "`true` or `false`",
        "u64" | "i64" => "a whole number",
        other => other,
    }
}

/// The known word that was probably meant, or all of them.
fn nearest(given: &str, known: &[&str]) -> String {
    let given = given.to_lowercase();
    let likeness = |word: &&str| strsim::jaro_winkler(&given, &word.to_lowercase());
    let best = known
        .iter()
        .map(|word| (likeness(word), word))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match best {
        Some((alike, word)) if alike >= ALIKE => format!("did you mean `{word}`?"),
        _ => format!("known are {}", backticked(known)),
    }
}

fn backticked(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}
