//! Output of a guest: `call.log`, standard output and standard error become bounded lines of the host's log.

use crate::bindings::imported::call::Level;
use crate::redact::{Redactor, printable};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::AsyncWrite;
use wasmount_core::mutex::lock;
use wasmount_core::names::DriverName;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Output bytes of one call: a panic with a long backtrace and some more. An unfinished line is kept up to the same size: redaction in pieces would
/// miss a secret across two of them.
const CALL_BYTES: usize = 64 << 10;
/// Lines per second of one backend, over all calls.
const LINES_PER_SECOND: u32 = 200;
/// The window of the rate.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Last lines of standard error that are kept to explain a trap: a panic of Rust has its location on one line and its message on the next.
const LAST_LINES: usize = 2;
/// The end of Rust's panic message: how to show more of it, which is impossible for a guest.
const BACKTRACE_NOTE: &str = "note: run with `RUST_BACKTRACE=1`";

/// Bytes that a guest may write at a time, as WASI's own pipes allow.
const WRITE_BYTES: usize = 8192;

/// The rate of one backend.
#[derive(Debug, Default)]
pub(crate) struct LogRate(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    dropped: u64,
}

/// The stream of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The output of one call.
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
    /// As written: they are only needed if the call fails.
    last_lines: VecDeque<String>,
}

impl LogRate {
    /// Whether one more line is within the rate, and how many were dropped since the last one that was.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = lock(&self.0);
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
    pub(crate) fn message(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let lengths = fields.iter().map(|(key, value)| key.len() + value.len());
        if !self.take_budget(message.len() + lengths.sum::<usize>()) || !self.is_admitted() {
            return;
        }
        let mut line = self.redactor.text(message);
        for (key, value) in fields {
            // Redacted before it is quoted: quoting may change the spelling of a value. Writing to a string cannot fail.
            let value = self.redactor.text(value);
            let _ = write!(line, " {key}={value:?}");
        }
        self.emit(level, &self.redactor.text(&line));
    }

    /// Bytes of a stream; complete lines are logged at once.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        if !self.take_budget(bytes.len()) {
            return;
        }
        let lines = {
            let mut spoken = lock(&self.spoken);
            let pending = spoken.pending(stream);
            let before = pending.len();
            pending.extend_from_slice(bytes);
            let end = bytes.iter().rposition(|byte| *byte == b'\n');
            let whole = end.map_or(0, |end| before + end + 1);
            pending.drain(..whole).collect::<Vec<u8>>()
        };
        for line in lines.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            self.line(stream, &line);
        }
    }

    /// At the end of a call: logs unfinished lines as well. Returns the last lines of standard error.
    pub(crate) fn close(&self) -> Option<String> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            // The guest may have been stopped, or its budget spent, within a character.
            let rest = std::mem::take(lock(&self.spoken).pending(stream));
            let rest = String::from_utf8_lossy(&rest);
            let rest = rest.trim_end_matches(char::REPLACEMENT_CHARACTER);
            self.line(stream, rest);
        }
        let lines = std::mem::take(&mut lock(&self.spoken).last_lines);
        let lines = lines.iter().map(|line| self.redactor.beginning(line));
        Some(lines.collect::<Vec<_>>().join(" ")).filter(|lines| !lines.is_empty())
    }

    /// The guest may have been stopped, or its budget spent, within a secret; and a panic starts a new line wherever the previous one ended.
    fn line(&self, stream: Stream, line: &str) {
        let line = printable(line);
        if line.trim().is_empty() {
            return;
        }
        if self.is_admitted() {
            let level = match stream {
                Stream::Stdout => Level::Info,
                Stream::Stderr => Level::Warn,
            };
            self.emit(level, &self.redactor.beginning(&line));
        }
        if stream == Stream::Stderr && !line.starts_with(BACKTRACE_NOTE) {
            let mut spoken = lock(&self.spoken);
            spoken.last_lines.push_back(line);
            if spoken.last_lines.len() > LAST_LINES {
                spoken.last_lines.pop_front();
            }
        }
    }

    /// Whether the call's budget has this many bytes left. Logs once that it does not.
    fn take_budget(&self, bytes: usize) -> bool {
        let (before, after) = {
            let mut spoken = lock(&self.spoken);
            let before = spoken.bytes;
            spoken.bytes = before.saturating_add(bytes);
            (before, spoken.bytes)
        };
        if after > CALL_BYTES && before <= CALL_BYTES && self.is_admitted() {
            self.emit(
                Level::Warn,
                "the log of this call is full: further lines are dropped",
            );
        }
        after <= CALL_BYTES
    }

    /// Whether one more line is within the rate. Checked before a line is redacted: a flood must cost as little as possible.
    fn is_admitted(&self) -> bool {
        let Some(dropped) = self.rate.admit(Instant::now()) else {
            return false;
        };
        if dropped > 0 {
            let driver = self.driver.as_str();
            tracing::warn!(target: "wasmount::guest", driver, lines = dropped, "log rate of the plugin exceeded: lines dropped");
        }
        true
    }

    fn emit(&self, level: Level, line: &str) {
        let driver = self.driver.as_str();
        let request_id = self.request_id.as_str();
        macro_rules! emit {
            ($level:ident) => {
                tracing::event!(target: "wasmount::guest", tracing::Level::$level, driver, request_id, "{line}")
            };
        }
        match level {
            Level::Error => emit!(ERROR),
            Level::Warn => emit!(WARN),
            Level::Info => emit!(INFO),
            Level::Debug => emit!(DEBUG),
            Level::Trace => emit!(TRACE),
        }
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

/// A stream of one call for WASI. Writing never waits and never fails: the log drops what exceeds the limits.
#[derive(Clone)]
pub(crate) struct Pipe {
    log: Arc<GuestLog>,
    stream: Stream,
}

impl Pipe {
    pub(crate) fn new(log: Arc<GuestLog>, stream: Stream) -> Self {
        Self { log, stream }
    }
}

impl IsTerminal for Pipe {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Pipe {
    /// For WASI 0.3, which no guest is linked with.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for Pipe {
    async fn ready(&mut self) {}
}

impl OutputStream for Pipe {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

#[cfg(test)]
mod tests;
