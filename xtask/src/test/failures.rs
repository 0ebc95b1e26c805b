//! Why tests failed, in a few lines each: a reader who sees only the end of a long output needs no second run.

use std::collections::BTreeSet;

/// How many lines of a panic's message are shown: an `assert_eq!` has three.
const MESSAGE_LINES: usize = 4;
/// How many characters of a line are shown: the values of an assertion may be whole logs.
const LINE_CHARACTERS: usize = 400;

/// What Rust's test runner prints behind the name of a test that runs for long, and before the result of one that ended.
const RUNS_LONG: &str = " has been running for over ";
const RESULT: &str = " ... ";

/// The first panic of each failed test, from what Rust's test runner prints: its name, then the place and the message.
pub(super) fn failures(output: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let mut lines = output.lines();
    let mut failed = None;
    while let Some(line) = lines.next() {
        if let Some(name) = name_of_section(line) {
            failed = Some(name);
        } else if is_panic(line)
            && let Some(name) = failed.take()
        {
            let message = lines.by_ref().take_while(|line| !ends_message(line));
            let shown = [line].into_iter().chain(message.take(MESSAGE_LINES));
            let shown = shown.map(|line| format!("\n      {}", shortened(line)));
            failures.push(format!("{name}{}", shown.collect::<String>()));
        }
    }
    failures
}

/// The tests that ran for long and did not end: one of them may be why a program was killed.
pub(super) fn unfinished(output: &str) -> Vec<String> {
    let tests = || output.lines().filter_map(|line| line.strip_prefix("test "));
    let name = |line: &'_ str, end| line.split_once(end).map(|(name, _)| name.to_owned());
    let ended: BTreeSet<_> = tests().filter_map(|line| name(line, RESULT)).collect();
    let long = tests().filter_map(|line| name(line, RUNS_LONG));
    let unfinished = long.filter(|name| !ended.contains(name));
    unfinished
        .map(|name| format!("{name}\n      did not end"))
        .collect()
}

/// `---- name stdout ----`
fn name_of_section(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

fn is_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(" panicked at ")
}

fn ends_message(line: &str) -> bool {
    line.is_empty() || line.starts_with("stack backtrace:") || line.starts_with("note: ")
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARACTERS) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
test a::passes ... ok
test a::fails ... FAILED

failures:

---- a::fails stdout ----
a line of the test
thread 'worker' (7) panicked at src/a.rs:3:5:
assertion `left == right` failed
  left: 1
 right: 2
stack backtrace:
thread 'a::fails' (6) panicked at src/a.rs:9:5:
the worker failed

---- a::ends_early stdout ----
Error: no panic

---- a::fails_too stdout ----
thread 'a::fails_too' (8) panicked at src/a.rs:12:5:
";

    #[test]
    fn each_failed_test_has_its_first_panic() {
        let expected = [
            "a::fails\n      thread 'worker' (7) panicked at src/a.rs:3:5:\n      assertion `left == right` failed\n        left: 1\n       right: 2",
            "a::fails_too\n      thread 'a::fails_too' (8) panicked at src/a.rs:12:5:",
        ];
        assert_eq!(failures(OUTPUT), expected);
    }

    #[test]
    fn a_test_that_does_not_end_is_named() {
        let output = "\
test a::slow has been running for over 60 seconds
test a::hangs has been running for over 60 seconds
test a::slow ... ok <61.000s>
a line with test a::other has been running for over 60 seconds
";
        assert_eq!(unfinished(output), ["a::hangs\n      did not end"]);
        assert!(unfinished("test a ... ok <61.000s>").is_empty());
    }

    #[test]
    fn a_message_is_cut_to_some_lines_and_characters() {
        let long = "é".repeat(LINE_CHARACTERS + 1);
        let output = format!("---- a stdout ----\nthread 'a' panicked at b:\n{long}\n1\n2\n3\n4\n");
        let cut = &long[..2 * LINE_CHARACTERS];
        let expected =
            format!("a\n      thread 'a' panicked at b:\n      {cut}..\n      1\n      2\n      3");
        assert_eq!(failures(&output), [expected]);
    }

    #[test]
    fn what_a_passed_program_prints_is_no_failure() {
        assert!(failures("thread 'a' panicked at b:\nexpected\ntest result: ok").is_empty());
    }
}
