//! The output of a guest in the host's log: with its driver and request, bounded, without secrets and control characters.

use crate::harness::{Fixture, secrets};
use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::fmt::MakeWriter;

/// Lines of a backend that are logged each second.
const LINES_PER_SECOND: u64 = 200;

/// With a single subscriber, tracing asks the thread that first reaches a log line, and if that thread has no subscriber the line is disabled for all
/// threads (tracing-core, `callsite::Dispatchers::rebuilder`): so there are two.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

/// The host's log while a volume is created.
async fn logged(fixture: &Fixture, behaviour: &str) -> String {
    logged_while(async {
        let _ = fixture.create(behaviour).await;
    })
    .await
}

/// The host's log during some work on this thread.
pub(crate) async fn logged_while(work: impl Future<Output = ()>) -> String {
    LazyLock::force(&ANOTHER);
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    work.await;
    drop(guard);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_guest_log_line_has_driver_and_request_and_no_secrets() {
    let mut fixture = Fixture::misbehave().await;
    fixture.secrets = secrets(&[("password", "tr0ub4dor")]);
    let log = logged(&fixture, "secret-in-log").await;
    assert!(log.contains("wasmount::guest"), "{log}");
    assert!(log.contains("driver=\"test.wasmount.io\""), "{log}");
    assert!(log.contains("request_id=\"request-1\""), "{log}");
    assert_eq!(log.matches("login with [redacted]").count(), 2, "{log}");
    assert!(!log.contains("tr0ub4dor"), "{log}");
}

#[tokio::test]
async fn a_secret_is_hidden_in_a_field_whatever_its_characters() {
    let mut fixture = Fixture::misbehave().await;
    for value in [
        "qu\"oted",
        "back\\slash",
        "tab\there",
        "line1\nline2",
        "bell\u{7}",
    ] {
        fixture.secrets = secrets(&[("password", value)]);
        let log = logged(&fixture, "secret-in-log").await;
        assert!(log.contains("key=\"[redacted]"), "{value:?}: {log}");
        for piece in ["oted", "slash", "there", "line1", "line2", "bell"] {
            assert!(!log.contains(piece), "{value:?}: {log}");
        }
    }
}

#[tokio::test]
async fn a_flood_of_lines_is_cut_off_and_printable() {
    let fixture = Fixture::misbehave().await;
    let start = Instant::now();
    let log = logged(&fixture, "flood").await;
    // The seconds that began meanwhile: a slow flood meets several windows of the rate.
    let seconds = start.elapsed().as_secs() + 2;
    let lines = u64::try_from(log.lines().count()).unwrap();
    let most = LINES_PER_SECOND * seconds;
    assert!((2..=most).contains(&lines), "{lines} lines, {most} at most");
    assert!(log.contains("line 0 red"), "{log}");
    assert!(!log.contains('\u{1b}'));
}
