//! What is looked for in a guest's texts: each spelling of a call's secrets, in one automaton. A tenant writes them, and a list of their lines that
//! is searched one by one held a worker for minutes.
//!
//! The automaton is not wiped when it goes, as spellings are: the library has no way to, and the memory of the guest holds the same.

use super::printable;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::ops::Range;
use wasmount_core::secrets::REDACTED_VALUE_BYTES;
use zeroize::Zeroizing;

/// Longest pattern, in bytes. Of a longer spelling the beginning is looked for, and all behind it counts as the value: a page of text
/// that is equal by chance is not to be had.
const PATTERN_BYTES: usize = 1024;
/// All patterns of a call together, in bytes: a bundle of all public certificate authorities has 220 KiB, and the automaton takes a dozen
/// bytes for each of these.
const PATTERNS_BYTES: usize = 512 << 10;
/// All values of a call together, in bytes: more than the one Secret of 1 MiB that Kubernetes allows, and one of the backend's.
const VALUES_BYTES: usize = 2 << 20;
/// Shortest value that an id or a context must not hold, in bytes. Shorter ones are user names such as `admin`, which stand in paths by
/// right, and no secret worth the name.
const REFUSED_VALUE_BYTES: usize = 8;
/// Shortest quoted string of a JSON document that counts as a secret itself, in bytes: service account tokens arrive as one document, and a
/// guest will hold the token alone. Shorter ones are the names of its fields.
const QUOTED_BYTES: usize = 20;

/// All that is looked for.
#[derive(Default)]
pub(super) struct Patterns {
    /// In order of their bytes, as the automaton numbers them.
    patterns: Vec<Pattern>,
    /// None: there is nothing to look for.
    automaton: Option<AhoCorasick>,
    /// Everything that should be looked for is.
    pub(super) are_complete: bool,
}

struct Pattern {
    text: Zeroizing<String>,
    /// Whether it must not stand in a word either.
    refused: bool,
    /// It is the beginning of a longer spelling.
    is_cut: bool,
}

/// A part of a value that counts as a secret itself.
struct Part<'v> {
    text: &'v str,
    /// It is the name of a field of a JSON document, such as the audience of a token: a file may be called so.
    is_name: bool,
}

impl Patterns {
    /// Of values, the most important first: whole values, then what they are made of.
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
        // The smallest kind: a deterministic automaton would take a hundred times the memory.
        let built = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.iter().map(|pattern| pattern.text.as_bytes()));
        Self {
            are_complete: are_complete && built.is_ok(),
            automaton: built.ok(),
            patterns,
        }
    }

    /// Where something stands, in order; what overlaps is one.
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

    /// The same for a text whose end may be missing: the beginning of something in last place counts as well. A few bytes do not: they are
    /// like the end of any word.
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

    /// Whether bytes hold something that no word may hold.
    pub(super) fn are_in_word(&self, word: &[u8]) -> bool {
        self.automaton.as_ref().is_some_and(|automaton| {
            let mut found = automaton.find_overlapping_iter(word);
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

/// Each line of a value (a guest's output leaves line by line) and its long quoted strings.
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

/// As it is, as it leaves the host, and as `{:?}` of Rust writes it in errors and panics of guests; each once, and none that is too short.
fn patterns_of(part: Part<'_>) -> impl Iterator<Item = Pattern> {
    let Part { text, is_name } = part;
    let refused = text.len() >= REFUSED_VALUE_BYTES && !is_name;
    // As many bytes, so that no more is spelt than is looked for.
    let begun = beginning(text, PATTERN_BYTES);
    let quoted = Zeroizing::new(format!("{begun:?}"));
    let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    let printed = Zeroizing::new(printable(begun));
    // Trimmed, as the end of a line is: a control character there leaves as a space, or not at all.
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

/// Up to so many bytes, whole characters.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes))
        .unwrap_or_default()
}

/// Adds one that ends where the last does, or later.
fn join(found: &mut Vec<Range<usize>>, mut range: Range<usize>) {
    while let Some(last) = found.pop_if(|last| range.start < last.end) {
        range.start = range.start.min(last.start);
    }
    found.push(range);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(lengths: Range<u32>) -> Vec<String> {
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
        let (values, texts) = (words(4..6), words(8..9));
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
        // Beside the lines there is the beginning of the whole, in three spellings.
        let fits = lines((PATTERNS_BYTES - 3 * PATTERN_BYTES) / 63);
        assert!(Patterns::of([fits.as_str()].into_iter()).are_complete);
        let more = lines(PATTERNS_BYTES / 63);
        assert!(!Patterns::of([more.as_str()].into_iter()).are_complete);
        let short = "ab\n".repeat(VALUES_BYTES / 3 + 1);
        assert!(!Patterns::of([short.as_str()].into_iter()).are_complete);
    }
}
