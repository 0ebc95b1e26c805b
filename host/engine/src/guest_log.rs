//! What a guest says: `call.log`, standard output and standard error become lines of the host's log, within bounds.
//!
//! Apart because three ways lead here, and a chatty plugin must harm neither the disk nor the reader: each call has a budget of bytes, each
//! backend a rate of lines. It does not know how lines are stored; that is the subscriber's.

use crate::redact::Redactor;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::Level;
use wasmount_core::names::DriverName;

/// Bytes that one call may say: a panic with a long backtrace and some more.
const CALL_BYTES: usize = 64 << 10;
/// Bytes of an unfinished line that are kept until its end.
const LINE_BYTES: usize = 4096;
/// Lines a second of one backend, over all calls.
const LINES_PER_SECOND: u32 = 200;
/// What the rate is counted over.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Last lines of standard error that are kept to explain a trap: a panic of Rust says where on one and what on the next.
const LAST_WORDS: usize = 2;

/// The rate of one backend.
#[derive(Debug, Default)]
pub(crate) struct LogRate(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    dropped: u64,
}

/// One of the ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// What one call says.
pub(crate) struct GuestLog {
    driver: DriverName,
    request_id: String,
    redactor: Redactor,
    rate: Arc<LogRate>,
    spoken: Mutex<Spoken>,
}

#[derive(Debug, Default)]
struct Spoken {
    bytes: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    last_words: VecDeque<String>,
}

impl LogRate {
    /// Whether one more line is within the rate, and how many were not since the last that was.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = window
            .began
            .is_none_or(|began| now.duration_since(began) >= RATE_WINDOW);
        if fresh {
            window.began = Some(now);
            window.lines = 0;
        }
        if window.lines >= LINES_PER_SECOND {
            window.dropped += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.dropped))
    }
}

impl GuestLog {
    pub(crate) fn new(
        driver: DriverName,
        request_id: String,
        redactor: Redactor,
        rate: Arc<LogRate>,
    ) -> Self {
        Self {
            driver,
            request_id,
            redactor,
            rate,
            spoken: Mutex::default(),
        }
    }

    /// One message at a level.
    pub(crate) fn message(&self, level: Level, message: &str) {
        if self.take_budget(message.len()) {
            self.emit(level, &self.redactor.text(message));
        }
    }

    /// Bytes of a stream; whole lines leave at once.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        if !self.take_budget(bytes.len()) {
            return;
        }
        let lines = {
            let mut spoken = self.spoken();
            let pending = spoken.pending(stream);
            pending.extend_from_slice(bytes);
            let whole = match pending.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => end + 1,
                None if pending.len() > LINE_BYTES => pending.len(),
                None => 0,
            };
            pending.drain(..whole).collect::<Vec<u8>>()
        };
        self.lines(stream, &lines);
    }

    /// At the end of a call: what has no line end yet leaves as well. Gives the last words on standard error.
    pub(crate) fn close(&self) -> Option<String> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = std::mem::take(self.spoken().pending(stream));
            self.lines(stream, &rest);
        }
        let words = std::mem::take(&mut self.spoken().last_words);
        (!words.is_empty()).then(|| Vec::from(words).join(" "))
    }

    fn lines(&self, stream: Stream, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            let line = self.redactor.text(&String::from_utf8_lossy(line));
            if line.trim().is_empty() {
                continue;
            }
            match stream {
                Stream::Stdout => self.emit(Level::INFO, &line),
                Stream::Stderr => {
                    self.emit(Level::WARN, &line);
                    let mut spoken = self.spoken();
                    spoken.last_words.push_back(line);
                    if spoken.last_words.len() > LAST_WORDS {
                        spoken.last_words.pop_front();
                    }
                }
            }
        }
    }

    /// Whether so many bytes are left of the call's budget. Says once that they are not.
    fn take_budget(&self, bytes: usize) -> bool {
        let (before, after) = {
            let mut spoken = self.spoken();
            let before = spoken.bytes;
            spoken.bytes = before.saturating_add(bytes);
            (before, spoken.bytes)
        };
        if after > CALL_BYTES && before <= CALL_BYTES {
            self.emit(
                Level::WARN,
                "this call has said too much: the rest is dropped",
            );
        }
        after <= CALL_BYTES
    }

    fn emit(&self, level: Level, line: &str) {
        let Some(dropped) = self.rate.admit(Instant::now()) else {
            return;
        };
        let driver = self.driver.as_str();
        if dropped > 0 {
            tracing::warn!(target: "wasmount::guest", driver, lines = dropped, "the plugin says too much: lines were dropped");
        }
        let request_id = self.request_id.as_str();
        macro_rules! emit {
            ($level:ident) => {
                tracing::event!(target: "wasmount::guest", Level::$level, driver, request_id, "{line}")
            };
        }
        match level {
            Level::ERROR => emit!(ERROR),
            Level::WARN => emit!(WARN),
            Level::INFO => emit!(INFO),
            Level::DEBUG => emit!(DEBUG),
            Level::TRACE => emit!(TRACE),
        }
    }

    fn spoken(&self) -> std::sync::MutexGuard<'_, Spoken> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spoken {
    fn pending(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::secrets::Secrets;

    fn log() -> GuestLog {
        let secrets = Secrets::from_iter([("key".to_owned(), "hunter22".to_owned())]);
        GuestLog::new(
            DriverName::parse("test.wasmount.io").unwrap(),
            "1".to_owned(),
            Redactor::new(Arc::new(secrets), Arc::default()),
            Arc::default(),
        )
    }

    #[test]
    fn the_last_words_are_whole_lines_without_secrets_even_if_written_in_pieces() {
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

    #[test]
    fn a_call_is_heard_up_to_its_budget_and_no_further() {
        let log = log();
        assert!(log.take_budget(CALL_BYTES));
        assert!(!log.take_budget(1));
    }

    #[test]
    fn a_backend_is_heard_up_to_its_rate_and_what_was_dropped_is_counted() {
        let rate = LogRate::default();
        let start = Instant::now();
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(rate.admit(start), Some(0));
        }
        assert_eq!(rate.admit(start), None);
        assert_eq!(rate.admit(start), None);
        assert_eq!(rate.admit(start + RATE_WINDOW), Some(2));
    }
}
