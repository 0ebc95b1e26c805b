//! Where the time of a run was spent: its steps, its test programs and its slowest tests.

use super::schedule::Report;
use std::time::Duration;

/// Rows of a table.
const ROWS: usize = 20;

/// An entry and its duration.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    elapsed: Duration,
    cpu: Option<Duration>,
}

/// The times of one run.
#[derive(Debug, Default)]
pub(super) struct Times {
    steps: Vec<Row>,
    programs: Vec<Row>,
    tests: Vec<Row>,
}

impl Times {
    /// Adds a completed step.
    pub(super) fn step(&mut self, name: &str, elapsed: Duration) {
        self.steps.push(Row {
            name: name.to_owned(),
            elapsed,
            cpu: None,
        });
    }

    /// Adds a completed test program, with its tests.
    pub(super) fn program(&mut self, report: &Report) {
        self.programs.push(Row {
            name: report.name.clone(),
            elapsed: report.elapsed,
            cpu: Some(report.cpu),
        });
        let tests = report.output.lines().filter_map(test);
        self.tests.extend(tests.map(|(name, elapsed)| Row {
            name: format!("{} {name}", report.name),
            elapsed,
            cpu: None,
        }));
    }

    /// The tables, with the slowest of each first; steps in the order of the run.
    pub(super) fn lines(&self) -> Vec<String> {
        let tables = [
            ("steps", self.steps.clone()),
            ("slowest test programs", slowest(&self.programs)),
            ("slowest tests", slowest(&self.tests)),
        ];
        let mut lines = Vec::new();
        for (title, rows) in tables {
            if rows.is_empty() {
                continue;
            }
            lines.push(format!("{:>9} {:>9}  {title}", "time", "CPU"));
            lines.extend(rows.iter().map(Row::line));
        }
        lines
    }
}

impl Row {
    fn line(&self) -> String {
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let cpu = self.cpu.map(seconds).unwrap_or_default();
        format!("{:>9} {cpu:>9}  {}", seconds(self.elapsed), self.name)
    }
}

fn slowest(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| std::cmp::Reverse(row.elapsed));
    rows.truncate(ROWS);
    rows
}

/// Parses `test kill::every_call ... ok <1.234s>`.
fn test(line: &str) -> Option<(&str, Duration)> {
    let rest = line.strip_prefix("test ")?;
    let (name, outcome) = rest.split_once(" ... ")?;
    let (_, time) = outcome.rsplit_once(" <")?;
    let seconds: f64 = time.strip_suffix("s>")?.parse().ok()?;
    Some((name, Duration::try_from_secs_f64(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, seconds: u64, output: &str) -> Report {
        Report {
            name: name.to_owned(),
            passed: true,
            output: output.to_owned(),
            totals: Default::default(),
            elapsed: Duration::from_secs(seconds),
            cpu: Duration::from_millis(1_500),
        }
    }

    #[test]
    fn tables_show_the_slowest_first() {
        let mut times = Times::default();
        times.step("format", Duration::from_millis(3_340));
        times.program(&report("core/lib", 2, "test claims::a ... ok <0.100s>"));
        times.program(&report(
            "tests/kill",
            130,
            "test b ... FAILED <125.000s>\nrunning 3 tests",
        ));
        assert_eq!(
            times.lines(),
            [
                "     time       CPU  steps",
                "    3.3 s            format",
                "     time       CPU  slowest test programs",
                "  130.0 s     1.5 s  tests/kill",
                "    2.0 s     1.5 s  core/lib",
                "     time       CPU  slowest tests",
                "  125.0 s            tests/kill b",
                "    0.1 s            core/lib claims::a",
            ]
        );
    }

    #[test]
    fn a_table_has_at_most_twenty_rows() {
        let mut times = Times::default();
        for second in 0..50 {
            times.program(&report("x", second, ""));
        }
        assert_eq!(times.lines().len(), 1 + ROWS);
        assert!(times.lines()[1].contains("49.0 s"));
    }

    #[test]
    fn other_lines_are_no_tests() {
        for line in [
            "test result: ok. 3 passed",
            "test a ... ok",
            "a ... ok <1s>",
            "test a ... ok <-1s>",
        ] {
            assert_eq!(test(line), None, "{line}");
        }
    }
}
