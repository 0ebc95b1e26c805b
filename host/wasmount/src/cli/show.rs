//! Output of commands for people: aligned, coloured on a terminal only, and without control characters from a plugin.

use crate::fault::Fault;
use crate::visible;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// Spaces between a label and its value.
const GAP: usize = 2;
/// Most characters of a value in a table; `--json` has the whole value.
const CELL_CHARACTERS: usize = 160;

/// The meaning of a text as a colour (ANSI, "Select Graphic Rendition"); removed if the output is not a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Heading,
    Quiet,
    Good,
    Warning,
    Bad,
}

/// Labels with their values, in two columns.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<(String, Vec<String>)>);

impl Tone {
    /// The text in its colour. The caller must have made it harmless.
    pub(super) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Heading => "1",
            Self::Quiet => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

impl Table {
    /// Adds one label and one line.
    pub(super) fn row(&mut self, label: &str, value: impl Into<String>) {
        self.rows(label, vec![value.into()]);
    }

    /// Adds one label and several lines; without a line there is no label.
    pub(super) fn rows(&mut self, label: &str, values: Vec<String>) {
        if !values.is_empty() {
            self.0.push((label.to_owned(), values));
        }
    }

    /// The text, with the values aligned.
    pub(super) fn print(&self) -> String {
        let widths = self.0.iter().map(|(label, _)| label.chars().count());
        let width = widths.max().unwrap_or_default() + GAP;
        let mut text = String::new();
        for (label, values) in &self.0 {
            for (index, value) in values.iter().enumerate() {
                let label = if index == 0 { label.as_str() } else { "" };
                let padded = format!("{label:width$}");
                text.push_str(&Tone::Heading.paint(&padded));
                text.push_str(value);
                text.push('\n');
            }
        }
        text
    }
}

/// A plugin's message, harmless and on one line.
pub(super) fn harmless(text: &str) -> String {
    let line = visible::line(text);
    match line.char_indices().nth(CELL_CHARACTERS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// A size for people: `1.4 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let (mut amount, mut unit) = (bytes as f64, None);
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = Some(next);
    }
    match unit {
        None => format!("{bytes} bytes"),
        Some(unit) => format!("{amount:.1} {unit}"),
    }
}

/// A duration for people, in milliseconds.
pub(super) fn milliseconds(time: std::time::Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// A duration for programs, in microseconds.
pub(super) fn microseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes text to standard output, without colours if that is not a terminal. The reader may close the pipe.
pub(super) fn print(text: &str) -> Result<(), Fault> {
    let mut output = anstream::stdout().lock();
    let printed = output.write_all(text.as_bytes());
    match printed.and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault::failed("the answer cannot be printed")(error))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON object, for programs.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(value)
        .map_err(Fault::failed("the answer cannot be written as JSON"))?;
    print(&format!("{text}\n"))
}

/// Writes a result: as JSON for programs, or as `text` has it for people.
pub(super) fn answer<T: Serialize>(
    json: bool,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Fault> {
    match json {
        true => print_json(result),
        false => print(&text(result)),
    }
}

/// Removes empty values, which people need not read.
pub(crate) fn without_nothing(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(entries) => !entries.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
        for value in fields.values_mut() {
            *value = without_nothing(value.take());
        }
    }
    value
}

/// A value as lines of YAML.
pub(crate) fn yaml_lines(value: &Value) -> Result<Vec<String>, Fault> {
    let is_empty = value.as_object().is_some_and(|fields| fields.is_empty());
    if is_empty {
        return Ok(vec![Tone::Quiet.paint("empty")]);
    }
    let text = serde_saphyr::to_string(value)
        .map_err(Fault::failed("the answer cannot be written as YAML"))?;
    Ok(text.lines().map(harmless).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_one_another() {
        let mut table = Table::default();
        table.row("a", "1");
        table.rows("long", vec!["2".to_owned(), "3".to_owned()]);
        table.rows("none", Vec::new());
        let plain = anstream::adapter::strip_str(&table.print()).to_string();
        assert_eq!(plain, "a     1\nlong  2\n      3\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_not_done() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        let long = "ä".repeat(CELL_CHARACTERS + 1);
        assert_eq!(harmless(&long).chars().count(), CELL_CHARACTERS + 1);
    }

    #[test]
    fn sizes_are_shown_in_the_largest_exact_unit() {
        for (size, formatted) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_500_000, "1.4 MiB"),
            (3 << 40, "3.0 TiB"),
            (5 << 50, "5120.0 TiB"),
        ] {
            assert_eq!(bytes(size), formatted);
        }
    }
}
