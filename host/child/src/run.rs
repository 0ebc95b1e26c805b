//! The parent's side: starts a child, writes its input, reads its output within bounds, and leaves none of its processes behind.

use crate::error::judge;
use crate::{ChildError, Task, landlock_rules, system_calls};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use wasmount_sys::child::{dies_with_parent, keeps_standard_streams};

/// This program, even if its file was replaced.
const OURSELVES: &str = "/proc/self/exe";
/// Threads that libraries in a child may start, set by environment variables: more would only use more memory.
const THREADS: &str = "4";
/// The environment variables of rayon, tokio and glibc's allocator.
const THREAD_VARIABLES: [&str; 3] = [
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "MALLOC_ARENA_MAX",
];
/// How much of a child's standard error is kept, in bytes: the end of it.
const MESSAGE_BYTES: usize = 4 << 10;
/// The prefix of this program's messages.
const OWN_NAME: &str = "wasmount: ";

/// Whether the log already contains the warnings about features that this kernel lacks.
static WARNED: Once = Once::new();

/// A request to the thread that starts children.
struct Order {
    command: tokio::process::Command,
    /// The runtime whose reactor is notified when the child exits.
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// The channel to the thread, once it runs.
static ORDERS: Mutex<Option<Sender<Order>>> = Mutex::new(None);

/// A child and all processes that it started; killed when dropped.
struct Running {
    child: Child,
}

impl Running {
    /// Returns when the child has exited. The processes that it started are killed then, since they would keep its streams open. The child is not
    /// reaped yet.
    #[expect(
        deprecated,
        reason = "what takes its place is `unsafe`, and asks for what `OwnedFd` keeps anyway (tokio#8587)"
    )]
    async fn ended(&self) -> Result<(), ChildError> {
        let process = self.number().ok_or(Errno::SRCH);
        let process = process.and_then(|number| pidfd_open(number, PidfdFlags::NONBLOCK));
        let process = process.map_err(|errno| unreadable(errno.into()))?;
        let process = AsyncFd::new(process).map_err(unreadable)?;
        process.readable().await.map_err(unreadable)?.retain_ready();
        self.kill();
        Ok(())
    }

    fn number(&self) -> Option<Pid> {
        let id = i32::try_from(self.child.id()?).ok()?;
        Pid::from_raw(id)
    }

    /// Kills the process group. No other group can have its number until the child is reaped.
    fn kill(&self) {
        if let Some(group) = self.number() {
            // An error means that the group is gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a child to its end and returns its answer. If the future is dropped before, the child is killed.
pub async fn run(task: &Task, input: Vec<u8>) -> Result<Vec<u8>, ChildError> {
    WARNED.call_once(warn_of_missing_features);
    run_program(Path::new(OURSELVES), task, input).await
}

/// Logs what the kernel lacks, for an administrator who can run another kernel; once, since it is the same for all children.
fn warn_of_missing_features() {
    if !system_calls::are_held_here() {
        tracing::warn!(
            "this kernel has no filters of system calls (seccomp): a compromised compiler could open what its user may; \
             run hosts on a kernel with CONFIG_SECCOMP_FILTER"
        );
    }
    if !landlock_rules::are_here() {
        tracing::warn!(
            "this kernel has no Landlock: a fetch child can read what its user may; \
             start it with lsm=landlock, or serve plugins from files"
        );
    }
}

pub(crate) async fn run_program(
    program: &Path,
    task: &Task,
    input: Vec<u8>,
) -> Result<Vec<u8>, ChildError> {
    let start = |source| ChildError::Start { source };
    let child = spawn(command(program, task)).await.map_err(start)?;
    let mut running = Running { child };
    let streams = (
        running.child.stdin.take(),
        running.child.stdout.take(),
        running.child.stderr.take(),
    );
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(start(io::Error::other("a stream is missing")));
    };
    let bounds = &task.bounds;
    let outcome = async {
        let (_, answer, message, ()) = tokio::try_join!(
            feed(stdin, &input),
            read_answer(stdout, bounds.output_bytes),
            read_stderr(stderr),
            running.ended()
        )?;
        Ok::<_, ChildError>((answer, message))
    };
    let outcome = timeout(bounds.wall, outcome).await;
    running.kill();
    let status = running.child.wait().await.map_err(unreadable)?;
    let (answer, message) = outcome.unwrap_or(Err(ChildError::Time {
        limit_seconds: bounds.wall.as_secs(),
    }))?;
    judge(status, answer, message, bounds)
}

fn command(program: &Path, task: &Task) -> tokio::process::Command {
    let mut command = Command::new(program);
    command
        .arg(task.subcommand)
        .args(&task.arguments)
        .env_clear()
        .envs(THREAD_VARIABLES.map(|variable| (variable, THREADS)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    dies_with_parent(&mut command);
    keeps_standard_streams(&mut command);
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    command
}

/// Starts a child on the thread that starts children.
async fn spawn(command: tokio::process::Command) -> io::Result<Child> {
    let (answer, started) = oneshot::channel();
    let runtime = Handle::current();
    let gone = || io::Error::other("the thread that starts processes has ended");
    let order = Order {
        command,
        runtime,
        answer,
    };
    orders()?.send(order).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

fn orders() -> io::Result<Sender<Order>> {
    let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(orders) = &*orders {
        return Ok(orders.clone());
    }
    let (sender, taken) = channel();
    thread::Builder::new()
        .name("children".to_owned())
        .spawn(move || start_all(&taken))?;
    *orders = Some(sender.clone());
    Ok(sender)
}

fn start_all(orders: &Receiver<Order>) {
    for mut order in orders {
        let _entered = order.runtime.enter();
        // If the caller is gone, the child is dropped with the answer, and killed.
        let _ = order.answer.send(order.command.spawn());
    }
}

/// Writes the input. A child that does not read all of it reports that by its exit status.
async fn feed(mut stdin: ChildStdin, input: &[u8]) -> Result<(), ChildError> {
    let _ = stdin.write_all(input).await;
    Ok(())
}

async fn read_answer(stdout: ChildStdout, limit_bytes: u64) -> Result<Vec<u8>, ChildError> {
    let mut answer = Vec::new();
    // One byte more than allowed, to see that there is more.
    let mut read = stdout.take(limit_bytes.saturating_add(1));
    let length = read.read_to_end(&mut answer).await.map_err(unreadable)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > limit_bytes {
        return Err(ChildError::TooMuch { limit_bytes });
    }
    Ok(answer)
}

/// Reads standard error and keeps its end.
async fn read_stderr(mut stderr: ChildStderr) -> Result<String, ChildError> {
    let mut message = Vec::new();
    loop {
        let read = stderr.read_buf(&mut message).await.map_err(unreadable)?;
        let surplus = message.len().saturating_sub(MESSAGE_BYTES);
        message.drain(..surplus);
        if read == 0 {
            let message = String::from_utf8_lossy(&message);
            let message = message.trim();
            return Ok(message.strip_prefix(OWN_NAME).unwrap_or(message).to_owned());
        }
    }
}

fn unreadable(source: io::Error) -> ChildError {
    ChildError::Unreadable { source }
}

#[cfg(test)]
mod tests;
