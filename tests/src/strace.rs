//! strace attached to a running host: kills it at a chosen system call, or delays one, so that any moment of an RPC can be tested without test code
//! in the product.
//!
//! A signal is injected at the entry of the system call, and a call that is entered under SIGKILL is not carried out: the host dies between it and
//! the call before. strace counts the calls of each name separately for each thread.

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

/// Time limit for strace to attach to all threads.
const ATTACH: Duration = Duration::from_secs(20);

/// Pause between two checks of its output.
const LOOK: Duration = Duration::from_millis(2);

/// Length of a string in its output: a mount option has up to 256.
const STRING_BYTES: &str = "256";

/// Its message once it is attached to all threads.
const ATTACHED: &str = " attached";

/// Attached until this is dropped.
#[derive(Debug)]
pub struct Strace {
    child: Child,
}

/// Attached, and recording the calls.
#[derive(Debug)]
pub struct Recording {
    strace: Strace,
    calls: NamedTempFile,
}

impl Strace {
    /// Kills the host when any of its threads makes its `nth` call of this name (from 1).
    pub fn kill_at(host: u32, syscall: &str, nth: usize) -> Result<Self, Failure> {
        Self::inject(host, syscall, &format!("signal=SIGKILL:when={nth}"))
    }

    /// Delays every call of this name before it is carried out.
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
        let words = NamedTempFile::new().map_err(Failure::cannot("make a temporary file"))?;
        let errors = words
            .reopen()
            .map_err(Failure::cannot("open the temporary file again"))?;
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
            .map_err(command::cannot_start(&command))?;
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
                .map_err(Failure::cannot("look at strace"))?;
            if let Some(status) = ended {
                return Err(command::failed(&command, status, said.trim()));
            }
            if start.elapsed() > ATTACH {
                return Err(Failure::Unexpected(format!(
                    "strace did not attach: {}",
                    said.trim()
                )));
            }
            thread::sleep(LOOK);
        }
    }
}

impl Recording {
    /// Records which of these calls are made from now on.
    pub fn begin(host: u32, syscalls: &[&str]) -> Result<Self, Failure> {
        let calls = NamedTempFile::new().map_err(Failure::cannot("make a temporary file"))?;
        let trace = format!("trace={}", syscalls.join(","));
        let strace = Strace::attach(host, &[trace], calls.path())?;
        Ok(Self { strace, calls })
    }

    /// The names of the recorded calls.
    pub fn end(self) -> Result<BTreeSet<String>, Failure> {
        // `<thread> <name>(<arguments>) = <result>`; a call that another thread's interrupted continues in a line with `<...`.
        let name = |line: &str| {
            let (name, _) = line.split_whitespace().nth(1)?.split_once('(')?;
            Some(name.to_owned())
        };
        Ok(self.written()?.lines().filter_map(name).collect())
    }

    /// The recorded calls, with their arguments.
    pub fn written(mut self) -> Result<String, Failure> {
        // SIGTERM, so that strace writes everything before it exits.
        let _ = kill_process(Pid::from_child(&self.strace.child), Signal::TERM);
        let ended = self.strace.child.wait();
        ended.map_err(Failure::cannot("wait for strace"))?;
        fs::read_to_string(self.calls.path())
            .map_err(Failure::cannot("read what strace has written"))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // Killed, without an orderly detach: while the host is dying, strace would wait for the first thread, which waits for the others, which wait
        // to be reaped by strace. The kernel detaches the tracees of a killed tracer, and lets them run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
