//! Texts for people: foreign ones shortened, and errors with their causes.

use std::error::Error;
use std::io;

/// How alike two names must be, by Jaro and Winkler, for one to be suggested: a missing, doubled or exchanged letter is, another word is not.
const ALIKE: f64 = 0.8;

/// Cut at a character, with a mark that it was cut.
pub fn shortened(mut text: String, limit_bytes: usize) -> String {
    if text.len() > limit_bytes {
        text.truncate(text.floor_char_boundary(limit_bytes));
        text.push('…');
    }
    text
}

/// The first digits of a digest. 12, as container runtimes show: enough for a person to distinguish two versions.
pub fn short_digest(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..12).unwrap_or(digits)
}

/// The first names of a list, and the number of the others.
pub fn listed(names: &[String], limit: usize) -> String {
    let shown = names.iter().take(limit).map(String::as_str);
    let mut list = shown.collect::<Vec<_>>().join(", ");
    if names.len() > limit {
        list.push_str(&format!(" and {} more", names.len() - limit));
    }
    list
}

/// The known name that looks most like another one, whatever its case and underscores.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    let name = plain(name);
    let known = known.into_iter();
    let scored = known.map(|known| (strsim::jaro_winkler(&plain(known), &name), known));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(likeness, _)| *likeness >= ALIKE)
        .map(|(_, known)| known)
}

/// An error and its causes, in one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many libraries repeat their cause in their own message.
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

/// An error of a type among the causes of another one. Errors inside of an [`io::Error`] are not its sources.
pub fn found_in<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| found_in(inner as &(dyn Error + 'static))) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        assert_eq!(shortened("abc".to_owned(), 3), "abc");
        assert_eq!(shortened("abcd".to_owned(), 3), "abc…");
        assert_eq!(shortened("aää".to_owned(), 4), "aä…");
    }

    #[test]
    fn a_digest_is_shown_by_its_first_digits() {
        assert_eq!(short_digest("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short_digest("0123"), "0123");
    }

    #[test]
    fn the_first_names_of_many_are_listed() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(listed(&names, 3), "a, b, c");
        assert_eq!(listed(&names, 2), "a, b and 1 more");
    }

    #[test]
    fn a_mistyped_name_has_a_nearest_one_and_another_word_none() {
        let known = ["clone-volume", "topology", "volume_capabilities"];
        for (name, found) in [
            ("clone-volumes", Some("clone-volume")),
            ("Topology", Some("topology")),
            ("volumeCapability", Some("volume_capabilities")),
            ("teleport", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), found, "{name}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Fault(&'static str, #[source] Option<Box<Fault>>);

    #[test]
    fn each_cause_that_is_not_repeated_follows_its_error() {
        let cause = |text, cause| Some(Box::new(Fault(text, cause)));
        let disk = Fault("cannot write", cause("disk full", None));
        assert_eq!(chain(&disk), "cannot write: disk full");
        let repeats = Fault(
            "cannot write: disk full",
            cause("disk full", cause("28", None)),
        );
        assert_eq!(chain(&repeats), "cannot write: disk full: 28");
    }
}
