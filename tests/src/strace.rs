//! strace attached to a running host: kills it at a chosen system call, or slows one down, so that any moment of a call can be hit without
//! code for tests in the product.
//!
//! A signal is injected when the call is entered, and a call that is entered under SIGKILL is not carried out: the host dies between it and
//! the one before. strace counts the calls of each name for each thread by itself.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use xtask::command;
use xtask::failure::Failure;

/// Until strace must have attached to all threads.
const ATTACH: Duration = Duration::from_secs(20);

/// Between two looks at what it says.
const LOOK: Duration = Duration::from_millis(2);

/// Of a string that it writes down: a mount option has up to 256.
const STRING_BYTES: &str = "256";

/// What it says when it holds all threads.
const ATTACHED: &str = " attached";

/// Attached, until this is dropped.
#[derive(Debug)]
pub struct Strace {
    child: Child,
}

/// Attached, and writing down which calls are made.
#[derive(Debug)]
pub struct Recording {
    strace: Strace,
    calls: NamedTempFile,
}

impl Strace {
    /// Kills the host when any thread of it makes its `nth` call of this name (from 1).
    pub fn kill_at(host: u32, syscall: &str, nth: usize) -> Result<Self, Failure> {
        Self::inject(host, syscall, &format!("signal=SIGKILL:when={nth}"))
    }

    /// Makes every call of this name wait before it is carried out.
    pub fn delay(host: u32, syscall: &str, time: Duration) -> Result<Self, Failure> {
        let microseconds = time.as_micros();
        Self::inject(host, syscall, &format!("delay_enter={microseconds}"))
    }

    fn inject(host: u32, syscall: &str, what: &str) -> Result<Self, Failure> {
        let inject = format!("inject={syscall}:{what}");
        let more = [format!("trace={syscall}"), inject];
        Self::attach(host, &more, Path::new("/dev/null"))
    }

    fn attach(host: u32, expressions: &[String], calls: &Path) -> Result<Self, Failure> {
        let words = NamedTempFile::new().map_err(Failure::io("make a temporary file"))?;
        let errors = words
            .reopen()
            .map_err(Failure::io("open the temporary file again"))?;
        let mut command = Command::new("strace");
        command
            .args(["-f", "-s", STRING_BYTES, "-p", &host.to_string(), "-o"])
            .arg(calls);
        for expression in expressions {
            command.args(["-e", expression]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|source| command::start_failure(&command, source))?;
        let mut strace = Self { child };
        let start = Instant::now();
        loop {
            let said = fs::read_to_string(words.path()).unwrap_or_default();
            if said.contains(ATTACHED) {
                return Ok(strace);
            }
            let ended = strace
                .child
                .try_wait()
                .map_err(Failure::io("look at strace"))?;
            if let Some(status) = ended {
                return Err(Failure::Command {
                    command: command::describe(&command),
                    status,
                    words: format!(": {}", said.trim()),
                });
            }
            if start.elapsed() > ATTACH {
                return Err(Failure::Unexpected {
                    what: format!("strace did not attach: {}", said.trim()),
                });
            }
            thread::sleep(LOOK);
        }
    }
}

impl Recording {
    /// Writes down which of these are called from here on.
    pub fn begin(host: u32, syscalls: &[&str]) -> Result<Self, Failure> {
        let calls = NamedTempFile::new().map_err(Failure::io("make a temporary file"))?;
        let trace = format!("trace={}", syscalls.join(","));
        let strace = Strace::attach(host, &[trace], calls.path())?;
        Ok(Self { strace, calls })
    }

    /// The names of those that were.
    pub fn end(self) -> Result<BTreeSet<String>, Failure> {
        // `<thread> <name>(<arguments>) = <result>`; one that was interrupted by another thread's goes on in a line with `<...`.
        let name = |line: &str| {
            let (name, _) = line.split_whitespace().nth(1)?.split_once('(')?;
            Some(name.to_owned())
        };
        Ok(self.written()?.lines().filter_map(name).collect())
    }

    /// All that was written of them, with their arguments.
    pub fn written(mut self) -> Result<String, Failure> {
        // In order, so that nothing is left unwritten.
        let _ = kill_process(Pid::from_child(&self.strace.child), Signal::TERM);
        let ended = self.strace.child.wait();
        ended.map_err(Failure::io("wait for strace"))?;
        fs::read_to_string(self.calls.path()).map_err(Failure::io("read what strace has written"))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // Not asked to detach in order: of a host that is just dying it would wait for the first thread, which waits for the others, which
        // wait to be reaped by strace. The kernel detaches what a killed tracer leaves, and lets it run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
