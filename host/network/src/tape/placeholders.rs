//! Names in the place of secrets: on a tape `{secret:NAME}` stands for a secret of the document, `{requestSecret:NAME}` for one of the request, and
//! `{token}` for a value of the host or of a session.

use super::TapeError;
use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wasmount_core::secrets::{REDACTED_VALUE_BYTES, Secrets};
use zeroize::Zeroizing;

/// What a text may be encoded as: nothing, a part of a URL, a part of a form.
const ENCODINGS: [fn(&str) -> String; 3] = [str::to_owned, url, form];

/// Replaces texts by others, the longest first.
pub(super) struct Replacer {
    automaton: AhoCorasick,
    others: Vec<String>,
}

impl Replacer {
    /// Puts names in the place of values.
    pub(super) fn hiding(
        document: &Secrets,
        request: &Secrets,
        tokens: &[Zeroizing<String>],
    ) -> Result<Self, TapeError> {
        let tokens = tokens.iter();
        let tokens = tokens.map(|value| ("{token}".to_owned(), value.as_str()));
        let mut pairs = BTreeMap::new();
        let all = named("secret", document.confidential());
        let all = all.chain(named("requestSecret", request.confidential()));
        let long = |(_, value): &(String, &str)| value.len() >= REDACTED_VALUE_BYTES;
        for (placeholder, value) in all.chain(tokens).filter(long) {
            // In a text that holds JSON, and in one that holds a header of HTTP Basic or a file.
            let json = Value::from(value).to_string();
            let quoted = json.get(1..json.len() - 1).unwrap_or_default().to_owned();
            for spelling in [value.to_owned(), quoted, STANDARD.encode(value)] {
                pairs.entry(spelling).or_insert_with(|| placeholder.clone());
            }
        }
        Self::new(pairs)
    }

    /// Puts values in the place of names, except for those of the document that the plugin does not see (`held`).
    pub(super) fn restoring(
        document: &Secrets,
        held: &BTreeSet<&str>,
        request: &Secrets,
    ) -> Result<Self, TapeError> {
        let seen = document
            .confidential()
            .filter(|(name, _)| !held.contains(name));
        let all = named("secret", seen).chain(named("requestSecret", request.confidential()));
        Self::new(all.map(|(name, value)| (name, value.to_owned())).collect())
    }

    fn new(pairs: BTreeMap<String, String>) -> Result<Self, TapeError> {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(pairs.keys())
            .map_err(|_| TapeError::TooLarge)?;
        Ok(Self {
            automaton,
            others: pairs.into_values().collect(),
        })
    }

    pub(super) fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.automaton.replace_all_bytes(bytes, &self.others)
    }

    pub(super) fn text(&self, text: &str) -> String {
        self.encoded(text, &ENCODINGS)
    }

    /// A text in which something is found only after it is decoded is replaced by the decoded one. What is between the finds may hold others in another
    /// encoding.
    fn encoded(&self, text: &str, encodings: &[fn(&str) -> String]) -> String {
        let Some((decode, others)) = encodings.split_first() else {
            return text.to_owned();
        };
        let decoded = decode(text);
        if !self.automaton.is_match(&decoded) {
            return self.encoded(text, others);
        }
        let between = |from, to| self.encoded(decoded.get(from..to).unwrap_or_default(), others);
        let (mut out, mut end) = (String::new(), 0);
        for found in self.automaton.find_iter(&decoded) {
            out += &between(end, found.start());
            let other = self.others.get(found.pattern().as_usize());
            out += other.map_or("", String::as_str);
            end = found.end();
        }
        out + &between(end, decoded.len())
    }

    pub(super) fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) => {
                let text = number.to_string();
                let found = self.automaton.find(&text);
                match found.is_some_and(|found| found.len() == text.len()) {
                    true => Value::String(self.text(&text)),
                    false => Value::Number(number),
                }
            }
            Value::Array(values) => values.into_iter().map(|value| self.json(value)).collect(),
            Value::Object(pairs) => pairs
                .into_iter()
                .map(|(key, value)| (self.text(&key), self.json(value)))
                .collect(),
            other => other,
        }
    }
}

/// Values by their placeholders.
fn named<'s>(
    kind: &'static str,
    secrets: impl Iterator<Item = (&'s str, &'s str)>,
) -> impl Iterator<Item = (String, &'s str)> {
    secrets.map(move |(name, value)| (format!("{{{kind}:{name}}}"), value))
}

fn url(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn form(text: &str) -> String {
    url(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secrets(pairs: &[(&str, &str)]) -> Secrets {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn values_are_hidden_in_every_spelling() {
        let document = secrets(&[("a", "p\"ss wörd/1"), ("pin", "4711"), ("no", "abc")]);
        let request = secrets(&[("a", "p\"ss wörd/1 and more"), ("b", "secret")]);
        let tokens = [Zeroizing::new("token-1".to_owned())];
        let hiding = Replacer::hiding(&document, &request, &tokens).unwrap();
        for (text, hidden) in [
            ("x p\"ss wörd/1 x", "x {secret:a} x"),
            ("x p\"ss wörd/1 and more", "x {requestSecret:a}"),
            (r#"{"a":"p\"ss wörd/1"}"#, r#"{"a":"{secret:a}"}"#),
            ("/a/p%22ss%20w%c3%b6rd%2f1?b=c", "/a/{secret:a}?b=c"),
            ("a=p%22ss+w%C3%B6rd%2F1", "a={secret:a}"),
            (&STANDARD.encode("p\"ss wörd/1"), "{secret:a}"),
            ("secret token-1", "{requestSecret:b} {token}"),
            ("abc 100% a+b %41", "abc 100% a+b %41"),
        ] {
            assert_eq!(hiding.text(text), hidden, "{text}");
        }
        assert_eq!(
            hiding.json(json!({ "token-1": [4711, 47110, "x4711", null, true] })),
            json!({ "{token}": ["{secret:pin}", 47110, "x{secret:pin}", null, true] })
        );
        assert_eq!(hiding.bytes(b"\xff4711\x00"), b"\xff{secret:pin}\x00");
    }

    #[test]
    fn values_come_back_unless_the_plugin_must_not_see_them() {
        let document = secrets(&[("a", "value-a"), ("held", "value-held")]);
        let held = BTreeSet::from(["held"]);
        let request = secrets(&[("held", "value-b")]);
        let restoring = Replacer::restoring(&document, &held, &request).unwrap();
        assert_eq!(
            restoring.text("{secret:a} {secret:held} {requestSecret:held} {secret:other} {token}"),
            "value-a {secret:held} value-b {secret:other} {token}"
        );
    }
}
