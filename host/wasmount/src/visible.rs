//! Makes text of a plugin, a registry or an administrator safe for a terminal.

use wasmount_artifact::is_control;

/// The text as one line.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// The text with its line breaks.
pub(crate) fn lines(text: &str) -> String {
    let kept = |c| if c == '\n' { c } else { visible(c) };
    text.chars().map(kept).collect()
}

fn visible(c: char) -> char {
    if is_control(c) {
        char::REPLACEMENT_CHARACTER
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_texts_are_displayed_in_writing_order() {
        let text = "gpj.\u{202e}exe \u{2066}a\u{2069} \u{200f}\u{5d0}";
        let plain = "gpj.\u{fffd}exe \u{fffd}a\u{fffd} \u{fffd}\u{5d0}";
        assert_eq!(line(text), plain);
        assert_eq!(lines(text), plain);
    }

    #[test]
    fn foreign_text_reaches_a_terminal_without_escapes() {
        let text = "\x1b[31mred\x07\ttitle\nnext \u{9b}1m ü";
        assert_eq!(
            line(text),
            "\u{fffd}[31mred\u{fffd}\u{fffd}title\u{fffd}next \u{fffd}1m ü"
        );
        assert_eq!(
            lines(text),
            "\u{fffd}[31mred\u{fffd}\u{fffd}title\nnext \u{fffd}1m ü"
        );
    }
}
