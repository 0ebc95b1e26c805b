//! Runs external programs, such as `mkfs`: by argument list, without a shell, with a deadline, and never longer than the host itself.
//!
//! Arguments must not contain a secret, because every process on the node can read them. A secret is passed by standard input.

use crate::failure::{self, kernel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, kill_process_group, waitpid};
use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_sys::program::{self, Program, Started};

/// Where programs are, whatever the host's own environment contains.
const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The environment of every program. device-mapper's library makes its nodes itself: in a container it would wait for a udev that does not know of it.
const ENVIRONMENT: [&str; 3] = [
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL=C",
    "DM_DISABLE_UDEV=1",
];
/// How much of each output is kept, in bytes. The rest is read and dropped, so that the program does not block on the pipe. The parts that the host
/// parses are in the first lines.
const KEPT_BYTES: u64 = 64 << 10;
/// How much of an output an error repeats, in characters: the last lines of a terminal.
const REPEATED_CHARACTERS: usize = 400;
/// Runs a program in another root directory.
const CHROOT: &str = "chroot";
/// The exit status of `chroot` if there is no such program (chroot(1)).
const NOT_FOUND: i32 = 127;
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
    /// The root directory in which it runs (`chroot`); none: that of this process.
    pub(crate) root: Option<PathBuf>,
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
        self.run_with_input(&[])
    }

    /// The same for a program that reads this from its standard input. It fits the buffer of a pipe, 64 KiB, so the write does not wait for the program.
    #[tracing::instrument(level = "debug", skip_all, name = "program", fields(program = self.program))]
    pub(crate) fn run_with_input(&self, input: &[u8]) -> Result<ToolOutput, MountError> {
        let (started, mut stdin, outputs) = self.start().map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.error(self.missing()),
            _ => failure::io("start", self.describe(), &error),
        })?;
        // A program that ended before it read its input says why by its exit status.
        let _ = stdin.write_all(input);
        drop(stdin);
        let outputs = outputs.map(keep);
        let ended = ends_within(&started.process, self.deadline);
        // Killed before it is reaped: until then no other process can have its process id. Its own children are killed with it.
        let _ = kill_process_group(started.id, Signal::KILL);
        let status = waitpid(Some(started.id), WaitOptions::empty());
        let status = status.map_err(|errno| kernel("wait", self.describe(), errno))?;
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
        let status = status.map(|(_, status)| status);
        if self.root.is_some() && status.and_then(|it| it.exit_status()) == Some(NOT_FOUND) {
            return Err(self.error(self.missing()));
        }
        let output = ToolOutput {
            status: status.and_then(|it| it.exit_status()).unwrap_or_default(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        };
        match status.and_then(|it| it.terminating_signal()) {
            None => Ok(output),
            Some(signal) => Err(self.error(format!(
                "it was killed by signal {signal}; {}",
                output.excerpt()
            ))),
        }
    }

    /// Starts the program; returns our ends of its standard input, and of its output and errors. The kernel kills it when the thread that started it
    /// ends; this thread waits in `run` until it is gone.
    fn start(&self) -> io::Result<(Started, PipeWriter, [PipeReader; 2])> {
        let (input, stdin) = pipe()?;
        let (stdout, output) = pipe()?;
        let (stderr, errors) = pipe()?;
        let (program, in_root) = match &self.root {
            Some(root) => (CHROOT, vec![CHROOT.into(), root.into()]),
            None => (self.program, Vec::new()),
        };
        let paths = DIRECTORIES.map(|directory| Path::new(directory).join(program));
        let started = program::start(Program {
            paths: paths.into(),
            arguments: [in_root, vec![self.program.into()], self.arguments.clone()].concat(),
            environment: ENVIRONMENT.map(OsString::from).into(),
            streams: [input.into(), output.into(), errors.into()],
        })?;
        Ok((started, stdin, [stdout, stderr]))
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
        let place = match self.root {
            Some(_) => "on the node",
            None => "on the node or in the host's image",
        };
        format!("it is not installed; install the package `{package}` {place}")
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
        root: None,
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
fn ends_within(process: &OwnedFd, deadline: Duration) -> Result<bool, Errno> {
    let deadline = Instant::now() + deadline;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            ended => return Ok(ended? > 0),
        }
    }
}

#[cfg(test)]
mod tests;
