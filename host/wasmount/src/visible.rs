//! What others wrote (a plugin, a registry, an administrator), as a terminal may be given it. Apart because a control character in a name would
//! move the cursor, colour what follows, or set the title of a window, in every command alike.

/// As one line.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// As the lines that it has.
pub(crate) fn lines(text: &str) -> String {
    let kept = |c| if c == '\n' { c } else { visible(c) };
    text.chars().map(kept).collect()
}

fn visible(c: char) -> char {
    if c.is_control() {
        char::REPLACEMENT_CHARACTER
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_reach_a_terminal_without_its_commands() {
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
