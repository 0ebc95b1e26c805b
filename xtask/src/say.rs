//! The one module that writes to the terminal: colour only on a terminal, so that logs and pipes stay plain text.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// The meaning of a piece of text; the colour depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As expected.
    Good,
    /// Not as expected.
    Bad,
    /// Less important than its neighbours.
    Quiet,
    /// A heading.
    Strong,
}

/// Standard output of a command.
#[derive(Debug)]
pub struct Console {
    colour: bool,
}

impl Tone {
    /// The SGR parameter of ECMA-48.
    fn parameter(self) -> u8 {
        match self {
            Tone::Strong => 1,
            Tone::Quiet => 2,
            Tone::Bad => 31,
            Tone::Good => 32,
        }
    }
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

impl Console {
    /// Colour if standard output is a terminal and `NO_COLOR` is not set (no-color.org).
    pub fn new() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colour: io::stdout().is_terminal() && !unwanted,
        }
    }

    /// Prints one line. A closed pipe is no reason to stop: the work and its clean-up continue.
    pub fn line(&self, text: &str) {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }

    /// Prints a heading.
    pub fn heading(&self, text: &str) {
        self.line(&self.paint(Tone::Strong, text));
    }

    /// Prints the final message of a command that failed.
    pub fn failure(&self, failure: &impl Display) {
        let _ = writeln!(io::stderr(), "xtask: {failure}");
    }

    /// The text in the colour of its meaning.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{}m{text}\u{1b}[0m", tone.parameter())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_colour() {
        let console = Console { colour: true };
        assert_eq!(console.paint(Tone::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
    }

    #[test]
    fn a_pipe_gets_plain_text() {
        let console = Console { colour: false };
        assert_eq!(console.paint(Tone::Bad, "no"), "no");
    }
}
