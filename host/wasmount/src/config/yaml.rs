//! Parses the text of a document; every error becomes one line that names key and rule.
//!
//! Strings must be written as strings (`"8080"`): the same document is valid as a custom resource, where the API server requires it.

use super::complaint::Complaint;
use super::places::Places;
use super::remaining;
use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};
use std::path::Path;
use wasmount_core::document::{KeyPath, StorageBackend, raw};
use wasmount_core::text::nearest;

/// The reason for a secret that is not a group of keys: a value, in most cases.
const A_SECRET: &str = "must say where the secret is, such as `{ file: /run/secrets/token }`; its value is not allowed here";

/// Reads a document, and the locations of its keys for checks across documents. The complaints are in the order of the text.
pub(super) fn parse(file: &Path, text: &str) -> Result<(StorageBackend, Places), Vec<Complaint>> {
    let places = Places::of(text);
    let first = match read(file, text, &places) {
        Ok(document) => return Ok((document, places)),
        Err(first) => first,
    };
    let others = first.key.as_ref().map(|key| {
        remaining::others(text, key, |text| {
            let Complaint { key, reason, .. } = read(file, text, &Places::of(text)).err()?;
            Some((key?, reason))
        })
    });
    let mut complaints = vec![first];
    for (key, reason) in others.into_iter().flatten() {
        complaints.push(Complaint {
            file: file.to_owned(),
            line: places.line_of(&key),
            key: Some(key),
            reason,
        });
    }
    complaints.sort_by_key(|it| it.line);
    Err(complaints)
}

/// The document, or the first error of a text.
fn read(file: &Path, text: &str, places: &Places) -> Result<StorageBackend, Complaint> {
    let complain = |line, key, reason| Complaint {
        file: file.to_owned(),
        line,
        key,
        reason,
    };
    let options = serde_saphyr::options! { with_snippet: false, no_schema: true };
    let document: raw::Document =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.location().map(|location| location.line());
            let key = key_of(&error, places);
            let reason = match &key {
                Some(key) if is_secret(key) => A_SECRET.to_owned(),
                _ => reason(&error),
            };
            complain(line, key, reason)
        })?;
    StorageBackend::try_from(document).map_err(|invalid| {
        let line = places.line_of(&invalid.key);
        complain(line, Some(invalid.key), invalid.reason)
    })
}

/// Whether a key is that of a secret itself, and not one within it.
fn is_secret(key: &KeyPath) -> bool {
    key.parent() == Some(KeyPath::of("spec.secrets"))
}

/// The key that a parser's error is about; none: it is about the text as a whole.
fn key_of(error: &Error, places: &Places) -> Option<KeyPath> {
    let location = error.location().unwrap_or(Location::UNKNOWN);
    let key = || places.key_at(location).cloned();
    let value = || places.value_at(location).cloned();
    match error {
        // If the rest of the text is not YAML, no key has a location; only its name is known.
        Error::SerdeUnknownField { field, .. } => {
            key().or_else(|| Some(KeyPath::default().key(field)))
        }
        Error::SerdeMissingField { field, .. } => Some(value().unwrap_or_default().key(*field)),
        Error::SerdeUnknownVariant { .. }
        | Error::SerdeInvalidType { .. }
        | Error::SerdeInvalidValue { .. }
        | Error::Unexpected { .. }
        | Error::InvalidScalar { .. }
        | Error::InvalidBooleanStrict { .. }
        | Error::NullIntoString { .. }
        | Error::QuotingRequired { .. } => value().or_else(key),
        _ => None,
    }
}

/// The reason of a parser's error. No branch repeats a value.
fn reason(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField {
            expected, field, ..
        } => format!("unknown key; {}", hint(field, expected)),
        Error::SerdeMissingField { .. } => "is missing".to_owned(),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!("unknown value; {}", hint(variant, expected)),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("must be {expected}")
        }
        Error::Unexpected { expected, .. } => format!("must be {}", plain(expected)),
        Error::InvalidScalar { ty, .. } => format!("must be {}", plain(ty)),
        Error::InvalidBooleanStrict { .. } => "must be `true` or `false`".to_owned(),
        Error::NullIntoString { .. } => "has no value".to_owned(),
        Error::QuotingRequired { .. } => {
            "must be text; put it in quotes, such as \"8080\"".to_owned()
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            format!("the key `{key}` is given twice")
        }
        Error::MultipleDocuments { .. } => {
            "a second document begins here; write one file for each backend".to_owned()
        }
        Error::Eof { .. } => {
            "is empty or ends too early; a StorageBackend begins with `apiVersion` and `kind`"
                .to_owned()
        }
        other => {
            let message = UserMessageFormatter.format_message(other);
            format!("is not valid YAML: {message}")
        }
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

/// The known name that was probably meant, or all of them.
fn hint(given: &str, known: &[&str]) -> String {
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are `{}`", known.join("`, `")),
    }
}
