//! Keeps the values of secrets out of what a guest says. Apart because every string that leaves the host passes here.
//!
//! A text for people (an error, a log line) has the values replaced. A word that the guest will get back (an id, a context) is refused
//! instead: replaced, it would no longer mean what the guest means. It does not know where a string goes.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use wasmount_core::secrets::{REDACTED_VALUE_BYTES, Secrets};
use wasmount_core::text::shortened;
use zeroize::Zeroizing;

/// Stands for a value.
const REDACTED: &str = "[redacted]";
/// Longest text of a guest that leaves the host, in bytes: twice what Kubernetes keeps of an event's message.
pub(crate) const TEXT_BYTES: usize = 2048;
/// Shortest value that an id or a context must not hold, in bytes. Shorter ones are user names such as `admin`, which stand in paths by
/// right, and no secret worth the name.
const REFUSED_VALUE_BYTES: usize = 8;
/// Shortest quoted string of a JSON document that counts as a secret itself, in bytes: service account tokens arrive as one document, and a
/// guest will hold the token alone. Shorter ones are the names of its fields.
const QUOTED_BYTES: usize = 20;

/// The secrets of one call: those of the request and those of the backend's document.
#[derive(Clone)]
pub(crate) struct Redactor(Arc<Values>);

struct Values {
    request: Arc<Secrets>,
    backend: Arc<Secrets>,
    /// Made when the guest first says something: most calls say nothing.
    spellings: OnceLock<Vec<Spelling>>,
}

/// One way in which a value, or a part of it, can stand in a text.
struct Spelling {
    text: Zeroizing<String>,
    /// Whether it must not stand in a word either.
    refused: bool,
}

impl Redactor {
    pub(crate) fn new(request: Arc<Secrets>, backend: Arc<Secrets>) -> Self {
        Self(Arc::new(Values {
            request,
            backend,
            spellings: OnceLock::new(),
        }))
    }

    /// A text that may leave the host: one line, without control characters (a terminal could obey them) and values, and of bounded length.
    pub(crate) fn text(&self, text: &str) -> String {
        let text = printable(text);
        shortened(self.replaced(&text, self.found_in(&text)), TEXT_BYTES)
    }

    /// The same for a text whose end may be missing: the beginning of a value in last place is one as well.
    pub(crate) fn beginning(&self, text: &str) -> String {
        let text = printable(text);
        let mut found = self.found_in(&text);
        let begun = |spelling: &Spelling| begun_in(&text, &spelling.text);
        found.extend(self.spellings().iter().filter_map(begun));
        shortened(self.replaced(&text, found), TEXT_BYTES)
    }

    /// Whether a word holds the value of a secret.
    pub(crate) fn finds_secret_in(&self, word: &str) -> bool {
        let mut refused = self.spellings().iter().filter(|spelling| spelling.refused);
        refused.any(|spelling| word.contains(spelling.text.as_str()))
    }

    /// The same for bytes that may be text.
    pub(crate) fn finds_secret_in_bytes(&self, bytes: &[u8]) -> bool {
        // What is no text is replaced by a character that no value of a secret consists of; all else stays.
        !self.spellings().is_empty() && self.finds_secret_in(&String::from_utf8_lossy(bytes))
    }

    fn found_in(&self, text: &str) -> Vec<Range<usize>> {
        let places = |spelling| {
            let places = text.match_indices(Spelling::as_str(spelling));
            places.map(|(start, found)| start..start + found.len())
        };
        self.spellings().iter().flat_map(places).collect()
    }

    /// Values may overlap: nothing of either is left.
    fn replaced(&self, text: &str, mut found: Vec<Range<usize>>) -> String {
        found.sort_unstable_by_key(|range| (range.start, Reverse(range.end)));
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for range in found {
            if range.start >= end {
                out.push_str(text.get(end..range.start).unwrap_or_default());
                out.push_str(REDACTED);
            }
            end = end.max(range.end);
        }
        out.push_str(text.get(end..).unwrap_or_default());
        out
    }

    fn spellings(&self) -> &[Spelling] {
        let Values {
            request,
            backend,
            spellings,
        } = &*self.0;
        spellings.get_or_init(|| {
            let values = request.values().chain(backend.values());
            let mut spellings: Vec<_> = values.flat_map(parts).flat_map(spellings_of).collect();
            spellings
                .retain(|it| it.text.len() >= REDACTED_VALUE_BYTES && !it.text.trim().is_empty());
            spellings.sort_unstable_by(|one, other| {
                let text = one.text.as_str().cmp(other.text.as_str());
                text.then(other.refused.cmp(&one.refused))
            });
            spellings.dedup_by(|one, other| one.text == other.text);
            spellings
        })
    }
}

/// Shows no value, so that whatever holds one can be formatted.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Spelling {
    fn as_str(&self) -> &str {
        &self.text
    }
}

/// A part of a value that counts as a secret itself.
struct Part<'v> {
    text: &'v str,
    /// It is the name of a field of a JSON document, such as the audience of a token: a file may be called so.
    is_name: bool,
}

/// A value, each of its lines (a guest's output leaves line by line) and its long quoted strings.
fn parts(value: &str) -> impl Iterator<Item = Part<'_>> {
    let lines = value.split(['\n', '\r']);
    let quoted = lines.clone().flat_map(|line| {
        let behind = line.split('"').skip(1).chain([""]);
        let quoted = line.split('"').zip(behind).enumerate();
        quoted.map(|(at, (text, behind))| Part {
            text,
            is_name: at % 2 == 1 && behind.trim_start().starts_with(':'),
        })
    });
    std::iter::once(value)
        .chain(lines.map(str::trim))
        .filter(|text| text.len() >= REDACTED_VALUE_BYTES)
        .map(|text| Part {
            text,
            is_name: false,
        })
        .chain(quoted.filter(|part| part.text.len() >= QUOTED_BYTES))
}

/// As it is, as it leaves the host, and as `{:?}` of Rust writes it in errors and panics of guests.
fn spellings_of(part: Part<'_>) -> [Spelling; 3] {
    let Part { text, is_name } = part;
    let quoted = Zeroizing::new(format!("{text:?}"));
    let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let printed = Zeroizing::new(printable(text));
    // Trimmed, as the end of a line is: a control character there leaves as a space, or not at all.
    [text, printed.trim(), escaped].map(|spelt| Spelling {
        text: Zeroizing::new(spelt.to_owned()),
        refused: text.len() >= REFUSED_VALUE_BYTES && !is_name,
    })
}

/// Where a text ends in the beginning of a value. A few bytes are none: they are like the end of any word.
fn begun_in(text: &str, value: &str) -> Option<Range<usize>> {
    let most = value.len().min(text.len() + 1);
    let mut lengths = (REDACTED_VALUE_BYTES..most).rev();
    let length = lengths.find(|length| {
        let beginning = value.get(..*length);
        beginning.is_some_and(|beginning| text.ends_with(beginning))
    })?;
    Some(text.len() - length..text.len())
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

#[cfg(test)]
mod tests;
