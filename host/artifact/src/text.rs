//! Untrusted text, made safe for an error, a log or a terminal: short, on one line, and in logical order.

/// Most characters that are quoted of one value, such as a media type: enough to find it.
pub(crate) const QUOTED_CHARACTERS: usize = 100;
/// Most characters of a whole error message.
pub(crate) const REASON_CHARACTERS: usize = 300;

/// At most this many characters of the text, with a mark where it is cut. Control characters become spaces.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let visible = |c: char| if is_control(c) { ' ' } else { c };
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(most).map(visible).collect();
    if characters.next().is_some() {
        short.push('\u{2026}');
    }
    short
}

/// Whether a character is a control character: C0 and C1 controls, line ends, and those that change the writing direction (Unicode, UAX #9).
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
