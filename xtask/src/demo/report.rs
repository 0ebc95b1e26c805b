//! The table of calls: a row is printed when its call has ended, in columns that fit 80 characters.

use crate::say::{Console, Tone};
use std::fmt::Display;
use std::time::{Duration, Instant};
use tonic::{Response, Status};

/// Width of the first column: CSI's longest name here, ControllerGetCapabilities, and an indent.
const CALL: usize = 27;

/// Width of the time column: `12345.6 ms`.
const TIME: usize = 10;

/// The rows so far.
#[derive(Debug)]
pub(super) struct Report<'a> {
    console: &'a Console,
    start: Instant,
    rows: usize,
    failed: Vec<String>,
}

/// A call that had to succeed did not; its row is written. The following calls make no sense.
#[derive(Debug)]
pub(super) struct Stopped;

impl<'a> Report<'a> {
    pub(super) fn new(console: &'a Console) -> Self {
        console.heading(&format!("{:CALL$}{:>TIME$}  {}", "call", "time", "result"));
        Self {
            console,
            start: Instant::now(),
            rows: 0,
            failed: Vec::new(),
        }
    }

    /// Makes an RPC; `words` summarises its answer.
    pub(super) async fn rpc<T>(
        &mut self,
        name: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
        words: impl FnOnce(&T) -> String,
    ) -> Result<T, Stopped> {
        let start = Instant::now();
        let answer = call.await;
        let time = start.elapsed();
        match answer {
            Ok(answer) => {
                let answer = answer.into_inner();
                self.row(name, time, &words(&answer));
                Ok(answer)
            }
            Err(status) => Err(self.fail(name, time, &refusal(&status))),
        }
    }

    /// An action of the orchestrator or a pod itself, between calls.
    pub(super) async fn act<T, E: Display>(
        &mut self,
        name: &str,
        act: impl Future<Output = Result<T, E>>,
        words: impl FnOnce(&T) -> String,
    ) -> Result<T, Stopped> {
        let start = Instant::now();
        let done = act.await;
        let time = start.elapsed();
        match done {
            Ok(done) => {
                self.row(name, time, &words(&done));
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
        let time = format!("{:.1} ms", milliseconds(self.start.elapsed()));
        self.console.line(&self.console.paint(
            Tone::Quiet,
            &format!("{:CALL$}{time:>TIME$}  {} rows\n", "in all", self.rows),
        ));
    }

    /// The failed calls, each as `call: why`.
    pub(super) fn failed(&self) -> Vec<String> {
        self.failed.clone()
    }

    fn row(&mut self, name: &str, time: Duration, words: &str) {
        self.rows += 1;
        let time = format!("{:.1} ms", milliseconds(time));
        self.console
            .line(&format!("{name:CALL$}{time:>TIME$}  {words}"));
    }

    fn fail(&mut self, name: &str, time: Duration, why: &str) -> Stopped {
        self.row(name, time, &self.console.paint(Tone::Bad, why));
        self.failed.push(format!("{}: {why}", name.trim()));
        Stopped
    }
}

/// A status as the CSI specification writes it.
fn refusal(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
