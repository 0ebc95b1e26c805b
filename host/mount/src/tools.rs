//! Runs external programs, such as `mkfs`: by argument list, without a shell, with a deadline, and never longer than the host itself.
//!
//! Arguments must not contain a secret, because every process on the node can read them. A secret is passed by standard input.

use crate::failure::{self, kernel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_sys::child::dies_with_parent;

/// Search path of programs, whatever the host's own environment contains.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of each output is kept, in bytes. The rest is read and dropped, so that the program does not block on the pipe. The parts that the host
/// parses are in the first lines.
const KEPT_BYTES: u64 = 64 << 10;
/// How much of an output an error repeats, in characters: the last lines of a terminal.
const REPEATED_CHARACTERS: usize = 400;
/// The Debian package that contains a program. Other distributions use similar names.
const PACKAGES: [(&str, &str); 12] = [
    ("blkid", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_logprint", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("btrfs", "btrfs-progs"),
    ("iscsiadm", "open-iscsi"),
    ("cryptsetup", "cryptsetup-bin"),
    ("dmsetup", "dmsetup"),
    ("multipathd", "multipath-tools"),
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

impl ToolCall {
    /// Runs the program to its end. Returns only after it is gone: until then it may use its device.
    pub(crate) fn run(&self) -> Result<ToolOutput, MountError> {
        self.run_to_end(None)
    }

    /// The same for a program that reads this from its standard input. It fits the buffer of a pipe, 64 KiB, so the write does not wait for the program.
    pub(crate) fn run_with_input(&self, input: &[u8]) -> Result<ToolOutput, MountError> {
        self.run_to_end(Some(input))
    }

    #[tracing::instrument(level = "debug", skip_all, name = "program", fields(program = self.program))]
    fn run_to_end(&self, input: Option<&[u8]>) -> Result<ToolOutput, MountError> {
        let mut child = self.start(input.is_some())?;
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            // A program that ended before it read its input says why by its exit status.
            let _ = pipe.write_all(input);
        }
        let outputs = [
            child.stdout.take().and_then(keep),
            child.stderr.take().and_then(keep),
        ];
        let ended = ends_within(&child, self.deadline);
        // Killed before it is reaped: until then no other process can have its process id. Its own children are killed with it.
        if let Some(group) = pid(&child) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = child.wait().map_err(|error| self.io("wait", &error))?;
        if !ended.map_err(|errno| kernel("poll", self.describe(), errno))? {
            return Err(MountError::hung(
                self.describe(),
                format!(
                    "it did not end within {} s and was killed; look whether the storage answers",
                    self.deadline.as_secs()
                ),
            ));
        }
        let kept = outputs.map(|output| output.and_then(|output| output.join().ok()));
        let [stdout, stderr] = kept.map(Option::unwrap_or_default);
        let output = ToolOutput {
            status: status.code().unwrap_or_default(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        };
        match status.signal() {
            None => Ok(output),
            Some(signal) => Err(self.error(format!(
                "it was killed by signal {signal}; {}",
                output.excerpt()
            ))),
        }
    }

    /// The kernel kills a child when the thread that started it ends; this thread waits in `run` until the child is gone.
    fn start(&self, has_input: bool) -> Result<Child, MountError> {
        let mut command = Command::new(self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("LC_ALL", "C")
            // device-mapper's library makes its nodes itself: in a container it would wait for a udev that does not know of it.
            .env("DM_DISABLE_UDEV", "1")
            .stdin(match has_input {
                true => Stdio::piped(),
                false => Stdio::null(),
            })
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
            output.excerpt()
        ))
    }

    /// Refuses an exit status that means failure.
    pub(crate) fn succeeded(&self, output: &ToolOutput) -> Result<(), MountError> {
        match output.status {
            0 => Ok(()),
            _ => Err(self.failed(output)),
        }
    }

    fn error(&self, text: String) -> MountError {
        MountError::tool(self.program, self.object.clone(), text)
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
    pub(crate) fn excerpt(&self) -> String {
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

/// A program with its arguments. The last argument is the device.
pub(crate) fn tool_call(
    program: &'static str,
    arguments: &[&str],
    device: &Path,
    deadline: Duration,
) -> ToolCall {
    let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    arguments.push(device.into());
    ToolCall {
        program,
        arguments,
        object: device.display().to_string(),
        deadline,
    }
}

/// Reads an output of the program to its end, and keeps the beginning.
fn keep(mut pipe: impl Read + Send + 'static) -> Option<JoinHandle<Vec<u8>>> {
    let read = move || {
        let mut kept = Vec::new();
        let _ = pipe.by_ref().take(KEPT_BYTES).read_to_end(&mut kept);
        let _ = io::copy(&mut pipe, &mut io::sink());
        kept
    };
    let thread = thread::Builder::new().name("tool-output".to_owned());
    thread.spawn(read).ok()
}

/// Waits until the program ends. `false`: it runs longer.
fn ends_within(child: &Child, deadline: Duration) -> Result<bool, Errno> {
    // The child is not reaped yet, so no other process has its process id.
    let process = pidfd_open(pid(child).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let deadline = Instant::now() + deadline;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            ended => return Ok(ended? > 0),
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests;
