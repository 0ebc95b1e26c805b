//! Runs external programs, such as `mkfs`: by argument list, without a shell, with a deadline, and never longer than the host itself.
//!
//! Arguments must not contain a secret, because every process on the node can read them.

use crate::failure::{self, kernel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_sys::child::dies_with_parent;

/// Search path of programs, whatever the host's own environment contains.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of each output is kept, in bytes. The rest is read and dropped, so that the program does not block on the pipe. The parts that the host
/// parses are in the first lines.
const KEPT_BYTES: usize = 64 << 10;
/// How much of an output an error repeats, in characters: the last lines of a terminal.
const REPEATED_CHARACTERS: usize = 400;
/// How much is read at a time, in bytes: the capacity of a pipe.
const READ_BYTES: usize = 64 << 10;
/// The Debian package that contains a program. Other distributions use similar names.
const PACKAGES: [(&str, &str); 8] = [
    ("blkid", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_logprint", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("btrfs", "btrfs-progs"),
];

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<OsString>,
    /// The object that it works on, for messages.
    pub(crate) object: String,
    /// The program is killed after this time.
    pub(crate) deadline: Duration,
}

/// The result of a program that ended itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolOutput {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// A pipe from the program, and the beginning of its output.
struct Output {
    pipe: Option<OwnedFd>,
    kept: Vec<u8>,
}

impl ToolCall {
    /// Runs the program to its end. Returns only after it is gone: until then it may use its device.
    pub(crate) fn run(&self) -> Result<ToolOutput, MountError> {
        let deadline = Instant::now() + self.deadline;
        let mut child = self.start()?;
        let pipes = [
            child.stdout.take().map(OwnedFd::from),
            child.stderr.take().map(OwnedFd::from),
        ];
        let mut outputs = pipes.map(Output::new);
        let ended = attend(&child, &mut outputs, deadline);
        // Killed before it is reaped: until then no other process can have its process id. Its own children are killed with it.
        if let Some(group) = pid(&child) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = child.wait().map_err(|error| self.io("wait", &error))?;
        if !ended.map_err(|errno| kernel("poll", self.describe(), errno))? {
            return Err(MountError::Hung {
                what: self.describe(),
                reason: format!(
                    "it did not end within {} s and was killed; look whether the storage answers",
                    self.deadline.as_secs()
                ),
            });
        }
        // The rest of the pipes after its end.
        outputs.iter_mut().for_each(Output::read);
        let [stdout, stderr] = outputs.map(|output| output.kept);
        let output = ToolOutput {
            status: status.code().unwrap_or_default(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        };
        match status.signal() {
            None => Ok(output),
            Some(signal) => Err(self.error(format!(
                "it was killed by signal {signal}; {}",
                output.last_words()
            ))),
        }
    }

    /// The kernel kills a child when the thread that started it ends; this thread waits in `run` until the child is gone.
    fn start(&self) -> Result<Child, MountError> {
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        dies_with_parent(&mut command)
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => self.error(self.missing()),
                _ => self.io("start", &error),
            })
    }

    /// The error for an exit status that means failure.
    pub(crate) fn failed(&self, output: &ToolOutput) -> MountError {
        self.error(format!(
            "exit status {}; {}",
            output.status,
            output.last_words()
        ))
    }

    fn error(&self, text: String) -> MountError {
        MountError::Tool {
            tool: self.program.to_owned(),
            object: self.object.clone(),
            text,
        }
    }

    fn missing(&self) -> String {
        let package = PACKAGES
            .iter()
            .find(|(program, _)| *program == self.program);
        let package = package.map_or("that brings it", |(_, package)| package);
        format!(
            "it is not installed; install the package `{package}` on the node or in the host's image"
        )
    }

    fn io(&self, operation: &str, error: &io::Error) -> MountError {
        failure::io(operation, self.describe(), error)
    }

    fn describe(&self) -> String {
        format!("`{}` on {}", self.program, self.object)
    }
}

impl ToolOutput {
    /// Beginning and end of its output, escaped, since it may contain data from the device. `mkfs.xfs` prints its reason first and its usage last.
    pub(crate) fn last_words(&self) -> String {
        let stdout = String::from_utf8_lossy(&self.stdout);
        let text = match self.stderr.trim() {
            "" => stdout.trim(),
            text => text,
        };
        let escaped: Vec<char> = text.escape_debug().collect();
        let half = REPEATED_CHARACTERS / 2;
        let dropped = escaped.len().saturating_sub(REPEATED_CHARACTERS);
        if dropped == 0 {
            return format!("it said: {}", String::from_iter(escaped));
        }
        let first: String = escaped.iter().take(half).collect();
        let last: String = escaped.iter().skip(half + dropped).collect();
        format!("it said: {first} .. {last}")
    }
}

impl Output {
    fn new(pipe: Option<OwnedFd>) -> Self {
        // Only our end is non-blocking: the program's end may still block.
        let pipe = pipe.filter(|pipe| {
            fcntl_getfl(pipe)
                .and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK))
                .is_ok()
        });
        Self {
            pipe,
            kept: Vec::new(),
        }
    }

    /// Reads all that is available now.
    fn read(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(count) if count > 0 => {
                    let room = KEPT_BYTES.saturating_sub(self.kept.len());
                    self.kept.extend(buffer.iter().take(count.min(room)));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }
}

/// Reads until the program ends: `true`; or until the deadline: `false`.
fn attend(child: &Child, outputs: &mut [Output; 2], deadline: Instant) -> Result<bool, Errno> {
    // A descriptor that can be polled together with the pipes. The child is not reaped yet, so no other process has its process id.
    let process = pidfd_open(pid(child).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        let pipes = outputs.iter().filter_map(|output| output.pipe.as_ref());
        let mut waited: Vec<_> = std::iter::once(&process)
            .chain(pipes)
            .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        match poll(&mut waited, Some(&left)) {
            Ok(_) if waited.first().is_some_and(|it| !it.revents().is_empty()) => return Ok(true),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        outputs.iter_mut().for_each(Output::read);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests;
