//! The table of calls: a row is printed when its call has ended, in columns that fit 80 characters.

use crate::say::{self, Tone};
use std::fmt::Display;
use std::time::{Duration, Instant};
use tonic::{Response, Status};

/// Width of the first column: CSI's longest name here, ControllerGetCapabilities, and an indent.
const CALL: usize = 27;

/// Width of the time column: `12345.6 ms`.
const TIME: usize = 10;

/// The rows so far.
#[derive(Debug)]
pub(super) struct Report {
    start: Instant,
    rows: usize,
    /// The failed calls, each as `call: why`.
    pub(super) failed: Vec<String>,
}

/// A call that had to succeed did not; its row is written. The following calls make no sense.
#[derive(Debug)]
pub(super) struct Stopped;

impl Report {
    pub(super) fn new() -> Self {
        say::heading(&format!("{:CALL$}{:>TIME$}  {}", "call", "time", "result"));
        Self {
            start: Instant::now(),
            rows: 0,
            failed: Vec::new(),
        }
    }

    /// Makes an RPC; `summary` is for the table.
    pub(super) async fn rpc<T>(
        &mut self,
        name: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
        summary: impl FnOnce(&T) -> String,
    ) -> Result<T, Stopped> {
        let answer = async {
            // An error as the CSI specification writes it.
            let error = |status: Status| format!("{:?}: {}", status.code(), status.message());
            call.await.map(Response::into_inner).map_err(error)
        };
        self.act(name, answer, summary).await
    }

    /// An action of the orchestrator or a pod itself, between calls.
    pub(super) async fn act<T, E: Display>(
        &mut self,
        name: &str,
        act: impl Future<Output = Result<T, E>>,
        summary: impl FnOnce(&T) -> String,
    ) -> Result<T, Stopped> {
        let start = Instant::now();
        let done = act.await;
        let time = start.elapsed();
        match done {
            Ok(done) => {
                self.row(name, time, &summary(&done));
                Ok(done)
            }
            Err(error) => Err(self.fail(name, time, &error.to_string())),
        }
    }

    /// Reports an answer that is wrong.
    pub(super) fn wrong(&mut self, name: &str, what: &str) -> Stopped {
        self.fail(name, Duration::ZERO, what)
    }

    /// Prints the line under the table.
    pub(super) fn end(&self) {
        let time = milliseconds(self.start.elapsed());
        say::line(&say::paint(
            Tone::Quiet,
            &format!("{:CALL$}{time:>TIME$}  {} rows\n", "in all", self.rows),
        ));
    }

    fn row(&mut self, name: &str, time: Duration, summary: &str) {
        self.rows += 1;
        let time = milliseconds(time);
        say::line(&format!("{name:CALL$}{time:>TIME$}  {summary}"));
    }

    fn fail(&mut self, name: &str, time: Duration, why: &str) -> Stopped {
        self.row(name, time, &say::paint(Tone::Bad, why));
        self.failed.push(format!("{}: {why}", name.trim()));
        Stopped
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
