//! Aligned tables, and ages.
//!
//! Colours are always written here; the code that prints the text removes them if necessary. Columns are aligned by their visible width.

use crate::cli::show::Tone;
use crate::visible;
use k8s_openapi::jiff::Timestamp;

/// Between two columns.
const GAP: &str = "  ";
/// Seconds of a minute, an hour and a day.
const UNITS: [(i64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];
/// A unit is used from this many of it on: `119s` says more than `1m`.
const FROM: i64 = 2;

/// One cell.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

/// Rows below headings.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Cell {
    /// A cell in a tone.
    pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: visible::line(&text.into()),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl Table {
    /// Creates a table without rows.
    pub(super) fn new<const N: usize>(headings: [&str; N]) -> Self {
        let heading = |text: &str| Cell::toned(text, Tone::Quiet);
        Self {
            rows: vec![headings.map(heading).into()],
        }
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The text of the table; no line ends in blanks.
    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let last = row.len().saturating_sub(1);
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                text.push_str(&cell.tone.paint(&cell.text));
                if at < last {
                    let missing = width.saturating_sub(cell.text.chars().count());
                    text.push_str(&" ".repeat(missing));
                    text.push_str(GAP);
                }
            }
            text.push('\n');
        }
        text
    }
}

/// The age of a time.
pub(super) fn ago(time: Timestamp) -> String {
    at(time, Timestamp::now())
}

/// A time to the second, in UTC: two nodes show the same.
pub(super) fn utc(time: Timestamp) -> String {
    time.strftime("%FT%TZ").to_string()
}

fn at(time: Timestamp, now: Timestamp) -> String {
    // The clock of the machine may have been set back.
    let seconds = now.duration_since(time).as_secs().max(0);
    for (unit_seconds, suffix) in UNITS {
        if seconds >= FROM * unit_seconds {
            return format!("{}{suffix}", seconds / unit_seconds);
        }
    }
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_seen_in_them() {
        let mut table = Table::new(["A", "LONG", "C"]);
        table.row([Cell::toned("green", Tone::Good), "é".into(), "x".into()]);
        let plain = anstream::adapter::strip_str(&table.text()).to_string();
        assert_eq!(plain, "A      LONG  C\ngreen  é     x\n");
        assert!(table.text().contains("\x1b[32mgreen\x1b[0m  "));
    }

    #[test]
    fn what_others_have_written_cannot_move_the_cursor() {
        let mut table = Table::new(["A"]);
        table.row(["a\x1b[2Jb\nc".into()]);
        let text = anstream::adapter::strip_str(&table.text()).to_string();
        assert_eq!(text, "A\na\\u{1b}[2Jb\\nc\n");
    }

    #[test]
    fn a_time_is_shown_to_the_second_in_utc() {
        for (time, text) in [
            ("2026-01-03T00:00:00Z", "2026-01-03T00:00:00Z"),
            ("2026-01-03T01:00:00.9+02:00", "2026-01-02T23:00:00Z"),
        ] {
            assert_eq!(utc(time.parse().unwrap()), text);
        }
    }

    #[test]
    fn an_age_is_shown_in_the_largest_unit_of_two_or_more() {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        for (time, age) in [
            ("2026-01-02T23:59:59Z", "1s"),
            ("2026-01-02T23:58:01Z", "119s"),
            ("2026-01-02T23:58:00Z", "2m"),
            ("2026-01-02T22:00:00Z", "2h"),
            ("2026-01-01T00:00:00Z", "2d"),
            ("2026-01-03T00:00:05Z", "0s"),
        ] {
            assert_eq!(at(time.parse().unwrap(), now), age, "{time}");
        }
    }
}
