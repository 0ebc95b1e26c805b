//! Keeps the values of secrets out of what a guest says. Apart because every string that leaves the host passes here.
//!
//! A text for people (an error, a log line) has the values replaced. A word that the guest will get back (an id, a context) is refused
//! instead: replaced, it would no longer mean what the guest means. It does not know where a string goes.

use std::sync::Arc;
use wasmount_core::secrets::{REDACTED_VALUE_BYTES, Secrets};

/// Stands for a value.
const REDACTED: &str = "[redacted]";
/// Longest text of a guest that leaves the host, in bytes: twice what Kubernetes keeps of an event's message.
pub(crate) const TEXT_BYTES: usize = 2048;
/// Shortest value that an id or a context must not hold, in bytes. Shorter ones are user names such as `admin`, which stand in paths by
/// right, and no secret worth the name.
const REFUSED_VALUE_BYTES: usize = 8;
/// Shortest part of a value that counts as a secret itself, in bytes. Parts are the lines of a key file and the quoted strings of a JSON
/// document: service account tokens arrive as one document, and a guest will hold the token alone.
const PART_BYTES: usize = 20;

/// The secrets of one call: those of the request and those of the backend's document.
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    request: Arc<Secrets>,
    backend: Arc<Secrets>,
}

impl Redactor {
    pub(crate) fn new(request: Arc<Secrets>, backend: Arc<Secrets>) -> Self {
        Self { request, backend }
    }

    /// A text that may leave the host: one line, without control characters (a terminal could obey them) and values, and of bounded length.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = printable(text);
        let mut values: Vec<&str> = self.values(REDACTED_VALUE_BYTES).collect();
        // The longest first: a value can be part of another.
        values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            let value = printable(value);
            if !value.is_empty() && text.contains(&value) {
                text = text.replace(&value, REDACTED);
            }
        }
        shortened(text, TEXT_BYTES)
    }

    /// Whether a word holds the value of a secret.
    pub(crate) fn finds_secret_in(&self, word: &str) -> bool {
        self.values(REFUSED_VALUE_BYTES)
            .any(|value| word.contains(value))
    }

    fn values(&self, at_least: usize) -> impl Iterator<Item = &str> {
        self.request
            .values()
            .chain(self.backend.values())
            .flat_map(move |value| {
                let parts = value.split(['\n', '\r', '"']);
                let parts = parts.filter(|part| part.len() >= PART_BYTES);
                std::iter::once(value)
                    .filter(move |value| value.len() >= at_least)
                    .chain(parts)
            })
    }
}

/// Without ANSI sequences and with spaces for all other control characters.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.trim_end().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.peek() == Some(&'[') => {
                characters.next();
                // A sequence ends at its first byte from `@` to `~` (ECMA-48, 5.4).
                for parameter in characters.by_ref() {
                    if ('@'..='~').contains(&parameter) {
                        break;
                    }
                }
            }
            '\u{1b}' => {}
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

/// Cut at a character, with a sign that it was cut.
pub(crate) fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(request: &[&str], backend: &[&str]) -> Redactor {
        let secrets = |values: &[&str]| {
            let named = values.iter().enumerate();
            Arc::new(Secrets::from_iter(
                named.map(|(n, value)| (n.to_string(), (*value).to_owned())),
            ))
        };
        Redactor::new(secrets(request), secrets(backend))
    }

    #[test]
    fn values_of_both_scopes_are_replaced_in_a_text() {
        let redactor = redactor(&["hunter22"], &["tr0ub4dor"]);
        for (text, expected) in [
            ("login with hunter22 failed", "login with [redacted] failed"),
            (
                "tr0ub4dor, hunter22hunter22",
                "[redacted], [redacted][redacted]",
            ),
            ("nothing to hide", "nothing to hide"),
            ("", ""),
        ] {
            assert_eq!(redactor.text(text), expected);
        }
    }

    #[test]
    fn a_value_within_another_leaves_nothing_of_the_longer_one() {
        let redactor = redactor(&["pass", "password-1"], &[]);
        assert_eq!(redactor.text("password-1"), "[redacted]");
    }

    #[test]
    fn a_value_that_is_split_by_an_escape_sequence_is_found() {
        let redactor = redactor(&["hunter22"], &[]);
        assert_eq!(redactor.text("hun\u{1b}[31mter22"), "[redacted]");
    }

    #[test]
    fn the_lines_and_quoted_parts_of_a_value_are_secrets_too() {
        let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6";
        let document = format!(r#"{{"api":{{"token":"{token}"}}}}"#);
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----";
        let redactor = redactor(&[&document, key], &[]);
        assert_eq!(redactor.text(token), "[redacted]");
        assert_eq!(redactor.text("MIIEvQIBADANBgkqhkiG9w0B"), "[redacted]");
        assert!(redactor.finds_secret_in(token));
    }

    #[test]
    fn words_too_short_to_be_secrets_are_left_alone() {
        let redactor = redactor(&["yes"], &["admin"]);
        assert_eq!(redactor.text("yes, admin"), "yes, [redacted]");
        assert!(!redactor.finds_secret_in("volumes/admin/1"));
    }

    #[test]
    fn control_characters_do_not_leave() {
        let redactor = redactor(&[], &[]);
        assert_eq!(
            redactor.text("a\u{1b}[2Jb\nc\u{1b}]0;d\u{7}\0e\r\n"),
            "ab c]0;d  e"
        );
    }

    #[test]
    fn a_long_text_is_cut_after_its_secrets_are_replaced() {
        let redactor = redactor(&["hunter22"], &[]);
        let text = redactor.text(&format!("{}hunter22", "x".repeat(TEXT_BYTES - 4)));
        assert_eq!(text, format!("{}[red…", "x".repeat(TEXT_BYTES - 4)));
    }
}
