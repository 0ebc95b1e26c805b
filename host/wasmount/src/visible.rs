//! Makes text of a plugin, a registry or an administrator safe for a terminal and a log.

use wasmount_artifact::is_control;

/// The text as one line, with control characters escaped.
pub(crate) fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if is_control(character) {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// The same with line breaks kept.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_texts_are_displayed_in_writing_order() {
        let text = "gpj.\u{202e}exe \u{2066}a\u{2069} \u{200f}\u{5d0}";
        let plain = "gpj.\\u{202e}exe \\u{2066}a\\u{2069} \\u{200f}\u{5d0}";
        assert_eq!(line(text), plain);
        assert_eq!(lines(text), plain);
    }

    #[test]
    fn foreign_text_reaches_a_terminal_without_escapes() {
        let text = "\x1b[31mred\x07\ttitle\nnext \u{9b}1m ü";
        assert_eq!(
            line(text),
            "\\u{1b}[31mred\\u{7}\\ttitle\\nnext \\u{9b}1m ü"
        );
        assert_eq!(
            lines(text),
            "\\u{1b}[31mred\\u{7}\\ttitle\nnext \\u{9b}1m ü"
        );
    }

    #[test]
    fn no_field_of_a_log_begins_a_line_of_its_own() {
        let forged = "/a\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2K";
        assert_eq!(
            line(forged),
            "/a\\n2026-01-01T00:00:00Z ERROR forged\\u{1b}[2K"
        );
    }
}
