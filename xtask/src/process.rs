//! A long-running process: started, ended or killed.
//!
//! It runs in a process group of its own, so that Ctrl-C reaches only us and we tear down in order; and the kernel signals it when the thread that
//! started it ends (`setpriv --pdeathsig`), so that a killed test or demo leaves no driver behind.

use crate::command;
use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of its end after SIGTERM: above its own grace period.
const END: Duration = Duration::from_secs(30);

/// Between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Lines of the log that an error shows.
const TAIL: usize = 20;

/// A started process; it is ended on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// The beginning of its command line; the program and its arguments follow. The process receives a signal when the thread that started it ends.
    pub fn command() -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]);
        command
    }

    /// Starts it; its output is appended to `log`. Call it on a thread that outlives the process.
    pub fn start(mut command: Command, log: &Path) -> Result<Self, Failure> {
        let opened = File::options()
            .create(true)
            .append(true)
            .open(log)
            .and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = opened.map_err(Failure::cannot(format!("open {}", log.display())))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(command::cannot_start(&command))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Its process id (or its wrapper's).
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child
            .try_wait()
            .map_err(Failure::cannot("look at the driver's process"))
    }

    /// Waits until it listens, as `look` sees; fails when it ends, or after this time.
    pub fn until_listening<T>(
        &mut self,
        limit: Duration,
        look: impl Fn() -> Option<T>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if let Some(status) = self.ended()? {
                return Err(self.failed(format!("ended at start ({status})")));
            }
            if start.elapsed() > limit {
                let how = format!("does not listen after {} s", limit.as_secs());
                return Err(self.failed(how));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGTERM, as kubelet does to end a container, and waits.
    pub fn terminate(&mut self) -> Result<ExitStatus, Failure> {
        let start = Instant::now();
        if self.ended()?.is_none() {
            // It may end at this very moment: the wait shows that.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if start.elapsed() > END {
                self.kill_9()?;
                return Err(self.failed(format!(
                    "did not end within {} s of SIGTERM and was killed",
                    END.as_secs()
                )));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGKILL to it and all processes that it started.
    pub fn kill_9(&mut self) -> Result<ExitStatus, Failure> {
        if self.ended()?.is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        self.child
            .wait()
            .map_err(Failure::cannot("wait for the driver's end"))
    }

    /// A failure with the end of its log.
    pub fn failed(&self, how: String) -> Failure {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let tail = last_lines(&text, TAIL);
        Failure::Unexpected(format!("the driver {how}; the end of its log:\n{tail}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill_9();
    }
}

/// The end of a log.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let start = lines.len().saturating_sub(count);
    lines.get(start..).unwrap_or_default().join("\n")
}
