//! Programs that the host runs, such as `mkfs`: by argument list, without a shell, with a deadline, and never longer than the host itself.
//!
//! It is apart because a program that hangs must cost one call and nothing else, and because none may be left behind with a device in its
//! hands. One thread starts them all: the kernel kills a child when the *thread* that started it ends. It must not know what a program does;
//! no secret may be among its arguments, which everybody on the node can read.

use crate::failure::{MountSetupError, kernel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_sys::child::dies_with_parent;

/// Where programs are looked for, whatever the host's own environment says.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of each output is kept, in bytes; the rest is read and dropped, so that nobody waits for us. What we read of it is in the first
/// lines.
const KEPT_BYTES: usize = 64 << 10;
/// How much of an output an error repeats, in characters: the last lines of a terminal.
const REPEATED_CHARACTERS: usize = 400;
/// How much is read at a time, in bytes: what a pipe holds.
const READ_BYTES: usize = 64 << 10;
/// The Debian package that brings a program. Other distributions name them much alike.
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

/// Runs programs. While it lives, so does the thread that starts them.
#[derive(Debug)]
pub(crate) struct Tools {
    orders: Sender<Order>,
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<OsString>,
    /// On what, for messages.
    pub(crate) object: String,
    /// After this long it is killed.
    pub(crate) deadline: Duration,
}

/// How a program ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolOutput {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// What the thread is asked for.
struct Order {
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

/// A pipe from the program, and the beginning of what came.
struct Output<P> {
    pipe: Option<P>,
    kept: Vec<u8>,
}

impl Tools {
    /// Starts the thread.
    pub(crate) fn new() -> Result<Self, MountSetupError> {
        let (orders, taken) = channel();
        thread::Builder::new()
            .name("tools".to_owned())
            .spawn(move || start_all(&taken))
            .map_err(|source| MountSetupError::Tools { source })?;
        Ok(Self { orders })
    }

    /// Runs a program to its end. Returns only when it is gone for good: until then the device that it works on is its own.
    pub(crate) fn run(&self, tool: &ToolCall) -> Result<ToolOutput, MountError> {
        let deadline = Instant::now() + tool.deadline;
        let mut child = self.start(tool)?;
        let mut stdout = Output::new(child.stdout.take());
        let mut stderr = Output::new(child.stderr.take());
        let ended = attend(&child, &mut stdout, &mut stderr, deadline);
        // Before it is reaped: until then no other process can have its number. What it started goes with it.
        kill_group(&child);
        let status = child.wait().map_err(|error| tool.io("wait", &error))?;
        if !ended.map_err(|errno| kernel("poll", tool.words(), errno))? {
            return Err(MountError::Hung {
                what: tool.words(),
                reason: format!(
                    "it did not end within {} s and was killed; look whether the storage answers",
                    tool.deadline.as_secs()
                ),
            });
        }
        // What lay in the pipes when it ended. Nobody writes any more.
        stdout.read();
        stderr.read();
        let said = ToolOutput {
            status: status.code().unwrap_or_default(),
            stdout: stdout.kept,
            stderr: String::from_utf8_lossy(&stderr.kept).into_owned(),
        };
        match status.signal() {
            None => Ok(said),
            Some(signal) => Err(tool.error(format!(
                "it was killed by signal {signal}; {}",
                said.last_words()
            ))),
        }
    }

    fn start(&self, tool: &ToolCall) -> Result<Child, MountError> {
        let mut command = Command::new(tool.program);
        command
            .args(&tool.arguments)
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        dies_with_parent(&mut command);
        let (answer, started) = sync_channel(1);
        let gone = || tool.error("the thread that starts programs has ended".to_owned());
        self.orders
            .send(Order { command, answer })
            .map_err(|_| gone())?;
        started.recv().map_err(|_| gone())?.map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                tool.error(tool.missing())
            } else {
                tool.io("start", &error)
            }
        })
    }
}

impl ToolCall {
    /// For an exit status that means failure.
    pub(crate) fn failed(&self, said: &ToolOutput) -> MountError {
        self.error(format!(
            "exit status {}; {}",
            said.status,
            said.last_words()
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
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        kernel(operation, self.words(), errno)
    }

    fn words(&self) -> String {
        format!("`{}` on {}", self.program, self.object)
    }
}

impl ToolOutput {
    /// Beginning and end of what it said, escaped, since what is on a device may be in it. `mkfs.xfs` gives its reason first and its usage last.
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

impl<P: AsFd + Read> Output<P> {
    fn new(pipe: Option<P>) -> Self {
        // Only our end: the program's may still block.
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

    /// Takes all that is there now.
    fn read(&mut self) {
        let mut buffer = vec![0; READ_BYTES];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = KEPT_BYTES.saturating_sub(self.kept.len());
                    self.kept.extend(buffer.iter().take(count.min(room)));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// The thread: forks, and does nothing else. It ends when nobody can order any more.
fn start_all(orders: &Receiver<Order>) {
    for mut order in orders {
        // Who ordered waits for the answer, and for nothing else.
        let _ = order.answer.send(order.command.spawn());
    }
}

/// Listens until the program ends: true; or the deadline has come: false.
fn attend<P: AsFd + Read, Q: AsFd + Read>(
    child: &Child,
    stdout: &mut Output<P>,
    stderr: &mut Output<Q>,
    deadline: Instant,
) -> Result<bool, Errno> {
    let process = open_process(child)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        if has_ended(&process, stdout, stderr, &left)? {
            return Ok(true);
        }
        stdout.read();
        stderr.read();
    }
}

/// Waits until the program ends, says something, or the time is over.
fn has_ended<P: AsFd, Q: AsFd>(
    process: &OwnedFd,
    stdout: &Output<P>,
    stderr: &Output<Q>,
    left: &Timespec,
) -> Result<bool, Errno> {
    let descriptors = [
        Some(process.as_fd()),
        stdout.pipe.as_ref().map(AsFd::as_fd),
        stderr.pipe.as_ref().map(AsFd::as_fd),
    ];
    let mut waited: Vec<_> = descriptors
        .into_iter()
        .flatten()
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut waited, Some(left)) {
        Ok(_) => Ok(waited.first().is_some_and(|it| !it.revents().is_empty())),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A descriptor that can be waited for together with the pipes. The child is not reaped yet, so its number is its own.
fn open_process(child: &Child) -> Result<OwnedFd, Errno> {
    let process = pid(child).ok_or(Errno::SRCH)?;
    pidfd_open(process, PidfdFlags::empty())
}

fn kill_group(child: &Child) {
    if let Some(group) = pid(child) {
        // Gone already is what is wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests;
