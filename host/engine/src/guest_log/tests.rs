//! Tests of a guest's output: bounded, and without secrets wherever it is split.

use super::*;
use std::sync::LazyLock;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use wasmount_core::secrets::Secrets;

/// With a single subscriber, tracing asks the thread that first reaches a log line, and if that thread has no subscriber the line is disabled for all
/// threads (tracing-core, `callsite::Dispatchers::rebuilder`): so there are two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

fn log() -> GuestLog {
    let values = ["hunter22", "\\\"quo\t\u{1}ted\"", "first line\nsecond\nab"];
    let named = values.iter().enumerate();
    let named = named.map(|(number, value)| (number.to_string(), (*value).to_owned()));
    let secrets = Secrets::from_iter(named);
    GuestLog::new(
        DriverName::parse("test.wasmount.io").unwrap(),
        "1".to_owned(),
        Redactor::new(Arc::new(secrets), Arc::default()),
        Arc::default(),
    )
}

#[test]
fn the_last_log_lines_are_whole_and_without_secrets() {
    let log = log();
    for piece in ["early\n", "panicked at lib.rs:1:\nkey is hun", "ter22"] {
        log.write(Stream::Stderr, piece.as_bytes());
    }
    log.write(Stream::Stdout, b"not an error");
    assert_eq!(
        log.close().as_deref(),
        Some("panicked at lib.rs:1: key is [redacted]")
    );
    assert_eq!(log.close(), None);
}

/// The content of the log after the guest's output, and its last lines.
fn heard(speak: impl FnOnce(&GuestLog)) -> (String, Option<String>) {
    LazyLock::force(&ANOTHER);
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone());
    let subscriber = subscriber.with_ansi(false).finish();
    let last_output = tracing::subscriber::with_default(subscriber, || {
        let log = log();
        speak(&log);
        log.close()
    });
    let bytes = lines.0.lock().unwrap().clone();
    (String::from_utf8(bytes).unwrap(), last_output)
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn a_field_is_redacted_before_it_is_quoted() {
    let (log, _) = heard(|log| {
        let field = ("key".to_owned(), "a \\\"quo\t\u{1}ted\" key".to_owned());
        log.message(Level::Info, "login", &[field]);
    });
    assert!(log.contains(r#"login key="a [redacted] key""#), "{log}");
}

#[test]
fn each_line_of_a_secret_is_hidden_when_they_leave_one_by_one() {
    let (log, last_output) = heard(|log| log.write(Stream::Stderr, b"first line\nsecond\n"));
    assert!(!log.contains("first") && !log.contains("second"), "{log}");
    assert_eq!(last_output.as_deref(), Some("[redacted] [redacted]"));
}

#[test]
fn no_length_of_a_line_cuts_a_secret_or_a_character_in_two() {
    for before in 4080..4100 {
        let line = format!(
            "{}hunter22é",
            "x ".repeat(before / 2) + &"y".repeat(before % 2)
        );
        let (log, _) = heard(|log| log.write(Stream::Stdout, line.as_bytes()));
        assert!(!log.contains("hunt") && !log.contains("ter22"), "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}

#[test]
fn a_budget_that_ends_within_a_secret_shows_none_of_it() {
    for (end, expected) in [
        (&b"key is hunt"[..], "key is [redacted]"),
        (b"caf\xc3", "caf"),
    ] {
        let (log, last_output) = heard(|log| {
            log.write(Stream::Stderr, end);
            log.write(Stream::Stderr, &[b'x'; CALL_BYTES]);
        });
        assert!(log.contains(expected) && !log.contains("hunt"), "{log}");
        assert_eq!(last_output.as_deref(), Some(expected));
    }
}

#[test]
fn a_line_below_the_log_level_is_kept_for_faults() {
    let log = log();
    for number in 0..=LINES_PER_SECOND {
        let line = format!("line {number} hunter22\n");
        log.write(Stream::Stderr, line.as_bytes());
    }
    assert_eq!(
        log.close().as_deref(),
        Some("line 199 [redacted] line 200 [redacted]")
    );
}

#[test]
fn the_backtrace_hint_is_not_kept_for_faults() {
    let log = log();
    let panic = "thread 'main' panicked at src/lib.rs:7:5:\nout of luck\n\
        note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
    log.write(Stream::Stderr, panic.as_bytes());
    assert_eq!(
        log.close().as_deref(),
        Some("thread 'main' panicked at src/lib.rs:7:5: out of luck")
    );
}

#[test]
fn a_call_is_heard_up_to_its_budget_and_no_further() {
    let log = log();
    assert!(log.take_budget(CALL_BYTES));
    assert!(!log.take_budget(1));
}

#[test]
fn log_lines_above_the_rate_are_dropped_and_counted() {
    let rate = LogRate::default();
    let start = Instant::now();
    for _ in 0..LINES_PER_SECOND {
        assert_eq!(rate.admit(start), Some(0));
    }
    assert_eq!(rate.admit(start), None);
    assert_eq!(rate.admit(start), None);
    assert_eq!(rate.admit(start + RATE_WINDOW), Some(2));
}
