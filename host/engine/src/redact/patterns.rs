//! The search patterns for a guest's texts: each spelling of a call's secrets, in one automaton. A tenant writes the secrets, and a search for their
//! lines one by one blocked a worker for minutes.
//!
//! Unlike the spellings, the automaton is not wiped when dropped: the library cannot do that, and the guest's memory contains the same values.

use super::printable;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::ops::Range;
use wasmount_core::secrets::REDACTED_VALUE_BYTES;
use zeroize::Zeroizing;

/// Longest pattern, in bytes. Of a longer spelling only the beginning is searched for, and all text after it counts as the value: a page of text is
/// not equal by chance.
const PATTERN_BYTES: usize = 1024;
/// All patterns of a call together, in bytes: a bundle of all public certificate authorities has 220 KiB, and the automaton takes a dozen bytes for
/// each byte of a pattern.
const PATTERNS_BYTES: usize = 512 << 10;
/// All values of a call together, in bytes: more than one Secret of 1 MiB, which is Kubernetes' limit, and one of the backend.
const VALUES_BYTES: usize = 2 << 20;
/// Shortest value that an id or a context must not contain, in bytes. Shorter ones are user names such as `admin`, which paths may contain, and too
/// short for a secret.
const REFUSED_VALUE_BYTES: usize = 8;
/// Shortest quoted string of a JSON document that counts as a secret itself, in bytes: service account tokens arrive as one document, and a guest
/// will use the token alone. Shorter strings are the names of its fields.
const QUOTED_BYTES: usize = 20;

/// All patterns of a call.
#[derive(Default)]
pub(super) struct Patterns {
    /// Sorted by their bytes, which is the automaton's numbering.
    patterns: Vec<Pattern>,
    /// None: there are no patterns.
    automaton: Option<AhoCorasick>,
    /// Whether the patterns cover all secrets.
    pub(super) are_complete: bool,
}

struct Pattern {
    text: Zeroizing<String>,
    /// Whether a string must not contain it either.
    refused: bool,
    /// Whether it is the beginning of a longer spelling.
    is_cut: bool,
}

/// A part of a value that counts as a secret itself.
struct Part<'v> {
    text: &'v str,
    /// It is the name of a field of a JSON document, such as the audience of a token: a file may have the same name.
    is_name: bool,
}

impl Patterns {
    /// Patterns of values, the most important first: whole values, then their parts.
    pub(super) fn of<'v>(values: impl Iterator<Item = &'v str> + Clone) -> Self {
        let wholes = values.clone().map(|text| Part {
            text,
            is_name: false,
        });
        let are_few = values.clone().map(str::len).sum::<usize>() <= VALUES_BYTES;
        let parts = wholes.chain(values.filter(|_| are_few).flat_map(parts));
        let mut patterns = Vec::new();
        let mut bytes = 0;
        let long = parts.filter(|part| part.text.len() >= REDACTED_VALUE_BYTES);
        for pattern in long.flat_map(patterns_of) {
            bytes += pattern.text.len();
            if bytes > PATTERNS_BYTES {
                break;
            }
            patterns.push(pattern);
        }
        let are_complete = are_few && bytes <= PATTERNS_BYTES;
        patterns.sort_unstable_by(|one, other| one.text.as_str().cmp(other.text.as_str()));
        patterns.dedup_by(|one, kept| {
            let is_same = one.text == kept.text;
            kept.refused |= is_same && one.refused;
            kept.is_cut |= is_same && one.is_cut;
            is_same
        });
        if patterns.is_empty() {
            return Self {
                are_complete,
                ..Self::default()
            };
        }
        // The smallest kind: a deterministic automaton would need a hundred times the memory.
        let built = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.iter().map(|pattern| pattern.text.as_bytes()));
        Self {
            are_complete: are_complete && built.is_ok(),
            automaton: built.ok(),
            patterns,
        }
    }

    /// The ranges of all matches, in order; overlapping ones are joined.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let Some(automaton) = &self.automaton else {
            return found;
        };
        for one in automaton.find_overlapping_iter(text) {
            let pattern = self.patterns.get(one.pattern().as_usize());
            if pattern.is_some_and(|pattern| pattern.is_cut) {
                join(&mut found, one.start()..text.len());
                break;
            }
            join(&mut found, one.range());
        }
        found
    }

    /// The same for a text that may be truncated: the beginning of a pattern at its end counts as well. A few bytes do not: any text may end like
    /// that.
    pub(super) fn find_with_begun(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = self.find(text);
        let first = text.len().saturating_sub(PATTERN_BYTES);
        let last = (text.len() + 1).saturating_sub(REDACTED_VALUE_BYTES);
        let begun = (first..last).find(|start| {
            text.get(*start..)
                .is_some_and(|end| self.one_begins_with(end))
        });
        if let Some(start) = begun {
            join(&mut found, start..text.len());
        }
        found
    }

    /// Whether bytes contain a pattern that no string may contain.
    pub(super) fn are_in(&self, text: &[u8]) -> bool {
        self.automaton.as_ref().is_some_and(|automaton| {
            let mut found = automaton.find_overlapping_iter(text);
            found.any(|one| {
                let pattern = self.patterns.get(one.pattern().as_usize());
                pattern.is_some_and(|pattern| pattern.refused)
            })
        })
    }

    fn one_begins_with(&self, text: &str) -> bool {
        let at = self
            .patterns
            .partition_point(|pattern| pattern.text.as_str() < text);
        let next = self.patterns.get(at);
        next.is_some_and(|pattern| pattern.text.starts_with(text))
    }
}

/// Each line of a value (a guest's output is logged line by line) and its long quoted strings.
fn parts(value: &str) -> impl Iterator<Item = Part<'_>> {
    value.split(['\n', '\r']).flat_map(|line| {
        let behind = line.split('"').skip(1).chain([""]);
        let quoted = line.split('"').zip(behind).enumerate();
        let quoted = quoted.map(|(at, (text, behind))| Part {
            text,
            is_name: at % 2 == 1 && behind.trim_start().starts_with(':'),
        });
        let is_long = |part: &Part<'_>| (QUOTED_BYTES..line.len()).contains(&part.text.len());
        let whole = Part {
            text: line.trim(),
            is_name: false,
        };
        std::iter::once(whole).chain(quoted.filter(move |part| is_long(part)))
    })
}

/// A part as it is, as the host prints it, and as Rust's `{:?}` writes it in errors and panics of guests; each once, without those that are too
/// short.
fn patterns_of(part: Part<'_>) -> impl Iterator<Item = Pattern> {
    let Part { text, is_name } = part;
    let refused = text.len() >= REFUSED_VALUE_BYTES && !is_name;
    // As many bytes as a pattern has, so that no unused text is converted.
    let begun = beginning(text, PATTERN_BYTES);
    let quoted = Zeroizing::new(format!("{begun:?}"));
    let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let printed = Zeroizing::new(printable(begun));
    // Trimmed, like the end of a line: a control character there is printed as a space, or not at all.
    let spellings = [begun, printed.trim(), escaped].map(|spelt| {
        let pattern = beginning(spelt, PATTERN_BYTES);
        Pattern {
            text: Zeroizing::new(pattern.to_owned()),
            refused,
            is_cut: begun.len() < text.len() || pattern.len() < spelt.len(),
        }
    });
    let [plain, others @ ..] = spellings;
    let is_new = |other: &Pattern| other.text != plain.text;
    let others = others.map(|other| Some(other).filter(is_new));
    [Some(plain)]
        .into_iter()
        .chain(others)
        .flatten()
        .filter(|it| it.text.len() >= REDACTED_VALUE_BYTES && !it.text.trim().is_empty())
}

/// At most this many bytes, whole characters.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes))
        .unwrap_or_default()
}

/// Adds a range that ends where the last one does, or later.
fn join(found: &mut Vec<Range<usize>>, mut range: Range<usize>) {
    while let Some(last) = found.pop_if(|last| range.start < last.end) {
        range.start = range.start.min(last.start);
    }
    found.push(range);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(lengths: Range<u32>) -> Vec<String> {
        let of_length = |length: u32| {
            let letters = move |number: u32| {
                let letter = |at| if number >> at & 1 == 0 { 'a' } else { 'b' };
                (0..length).map(letter).collect()
            };
            (0..1 << length).map(letters)
        };
        lengths.flat_map(of_length).collect()
    }

    #[test]
    fn finds_cover_values_and_nothing_else() {
        let (values, texts) = (strings(4..6), strings(8..9));
        for one in &values {
            for other in values.iter().rev().step_by(5) {
                let patterns = Patterns::of([one.as_str(), other].into_iter());
                for text in &texts {
                    let is_in = |at: usize| {
                        let mut values = [one, other].into_iter();
                        values.any(|value| {
                            let first = (at + 1).saturating_sub(value.len());
                            (first..=at).any(|start| text[start..].starts_with(value.as_str()))
                        })
                    };
                    let found = patterns.find(text);
                    for at in 0..text.len() {
                        let is_found = found.iter().any(|range| range.contains(&at));
                        assert_eq!(is_found, is_in(at), "{one} {other} {text} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn finds_that_overlap_are_one() {
        let patterns = Patterns::of(["abcd", "cdef", "efgh"].into_iter());
        assert_eq!(patterns.find("abcdefgh abcdabcd"), [0..8, 9..13, 13..17]);
    }

    #[test]
    fn patterns_are_bounded_in_sum() {
        let lines = |count: usize| {
            let lines = (0..count).map(|n| format!("{n:0>63}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        // In addition to the lines there is the beginning of the whole value, in three spellings.
        let fits = lines((PATTERNS_BYTES - 3 * PATTERN_BYTES) / 63);
        assert!(Patterns::of([fits.as_str()].into_iter()).are_complete);
        let more = lines(PATTERNS_BYTES / 63);
        assert!(!Patterns::of([more.as_str()].into_iter()).are_complete);
        let short = "ab\n".repeat(VALUES_BYTES / 3 + 1);
        assert!(!Patterns::of([short.as_str()].into_iter()).are_complete);
    }
}
