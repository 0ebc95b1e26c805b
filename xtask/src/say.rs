//! The one module that writes to the terminal: colour only on a terminal, so that logs and pipes stay plain text.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// The meaning of a piece of text, with its colour as the SGR parameter of ECMA-48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As expected.
    Good = 32,
    /// Not as expected.
    Bad = 31,
    /// Less important than its neighbours.
    Quiet = 2,
    /// A heading.
    Strong = 1,
}

/// Prints one line. A closed pipe is no reason to stop: the work and its clean-up continue.
pub fn line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a heading.
pub fn heading(text: &str) {
    line(&paint(Tone::Strong, text));
}

/// Prints the final message of a command that failed.
pub fn failure(failure: &impl Display) {
    let _ = writeln!(io::stderr(), "xtask: {failure}");
}

/// The text in the colour of its meaning, if standard output is a terminal and `NO_COLOR` is not set (no-color.org).
pub fn paint(tone: Tone, text: &str) -> String {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    painted(tone, text, io::stdout().is_terminal() && !unwanted)
}

fn painted(tone: Tone, text: &str, colour: bool) -> String {
    if colour {
        format!("\u{1b}[{}m{text}\u{1b}[0m", tone as u8)
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_colour() {
        assert_eq!(painted(Tone::Bad, "no", true), "\u{1b}[31mno\u{1b}[0m");
    }

    #[test]
    fn a_pipe_gets_plain_text() {
        assert_eq!(painted(Tone::Bad, "no", false), "no");
    }
}
