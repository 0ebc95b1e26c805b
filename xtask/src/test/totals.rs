//! The totals of many test programs, from the lines that Rust's test runner prints.

use std::fmt;

/// The beginning of a test program's result line.
const RESULT: &str = "test result:";

/// The sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Totals {
    /// Adds the totals of another program.
    pub(super) fn add_all(&mut self, others: Self) {
        self.passed += others.passed;
        self.failed += others.failed;
        self.skipped += others.skipped;
    }

    /// Whether no test ran.
    pub(super) fn is_empty(self) -> bool {
        self.passed == 0 && self.failed == 0
    }

    /// A program that failed without a result, such as one that was killed, counts as a failed test.
    pub(super) fn failed_at_least_one(&mut self) {
        self.failed = self.failed.max(1);
    }

    /// Adds `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; ..`; other lines add nothing.
    pub(super) fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix(RESULT) else {
            return;
        };
        for part in result.split(['.', ';']) {
            let mut fields = part.split_whitespace();
            let Some(Ok(number)) = fields.next().map(str::parse::<u64>) else {
                continue;
            };
            match fields.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                // Tests are filtered only if the caller asked for it.
                Some("ignored" | "filtered") => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(lines: &[&str]) -> String {
        let mut totals = Totals::default();
        lines.iter().for_each(|line| totals.add(line));
        totals.to_string()
    }

    #[test]
    fn the_lines_of_test_programs_are_added_up() {
        assert_eq!(
            totals(&[
                "running 3 tests",
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s",
                "test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
            ]),
            "15 passed, 2 failed"
        );
    }

    #[test]
    fn what_was_left_out_is_named() {
        assert_eq!(
            totals(&[
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.02s"
            ]),
            "3 passed, 0 failed, 5 skipped"
        );
    }

    #[test]
    fn what_a_test_prints_counts_nothing() {
        assert_eq!(totals(&["5 passed; 5 failed"]), "0 passed, 0 failed");
    }
}
