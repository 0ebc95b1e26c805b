//! Untrusted text as an error, a log and a terminal may show it: short, on one line, and in the order in which it is written.

/// Most characters that are quoted of one thing, such as a media type: enough to find it.
pub(crate) const QUOTED_CHARACTERS: usize = 100;
/// Most characters of a whole explanation.
pub(crate) const REASON_CHARACTERS: usize = 300;

/// So many characters of it at most, with a sign where it is cut. What a terminal would obey becomes a space.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let visible = |c: char| if is_control(c) { ' ' } else { c };
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(most).map(visible).collect();
    if characters.next().is_some() {
        short.push('\u{2026}');
    }
    short
}

/// Whether it is a command and no sign: control characters, ends of lines, and what turns the direction of writing around (Unicode, UAX #9).
pub fn is_control(c: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c);
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_the_limit() {
        assert_eq!(shorten("\u{e4}bc", 3), "\u{e4}bc");
        assert_eq!(shorten("\u{e4}bcd", 3), "\u{e4}bc\u{2026}");
    }

    #[test]
    fn terminal_control_characters_become_spaces() {
        assert_eq!(
            shorten("a\u{1b}[1m\nb\u{202e}c\u{2066}\u{2028}", 20),
            "a [1m b c  "
        );
    }
}
