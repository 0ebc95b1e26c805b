//! The parent's side: starts a child, writes its input, reads its output within bounds, and leaves none of its processes behind.

use crate::error::judge;
use crate::{ChildError, Task, landlock_rules, system_calls};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use std::io::{self, pipe};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{self, channel};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::timeout;
use wasmount_sys::program::{Program, Started, start};

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
    program: Program,
    answer: oneshot::Sender<Result<Running, Errno>>,
}

/// The channel to the thread, once it runs.
static ORDERS: Mutex<Option<mpsc::Sender<Order>>> = Mutex::new(None);

/// A child and all processes that it started; killed when dropped.
struct Running {
    started: Started,
    is_reaped: bool,
}

/// Our ends of a child's streams.
struct Streams {
    input: Sender,
    answer: Receiver,
    message: Receiver,
}

impl Running {
    /// Returns when the child has exited. The processes that it started are killed then, since they would keep its streams open. The child is not
    /// reaped yet.
    #[expect(
        deprecated,
        reason = "what takes its place is `unsafe`, and asks for what `OwnedFd` keeps anyway (tokio#8587)"
    )]
    async fn ended(&self) -> Result<(), ChildError> {
        let process = AsyncFd::new(self.started.process.as_fd()).map_err(unreadable)?;
        process.readable().await.map_err(unreadable)?.retain_ready();
        self.kill();
        Ok(())
    }

    /// Waits until the child has exited, and reaps it.
    async fn status(mut self) -> Result<ExitStatus, ChildError> {
        self.ended().await?;
        let status = reap(self.started.id).map_err(unreadable)?;
        self.is_reaped = true;
        Ok(status)
    }

    /// Kills the process group. No other group can have its number until the child is reaped.
    fn kill(&self) {
        // An error means that the group is gone already.
        let _ = kill_process_group(self.started.id, Signal::KILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        self.kill();
        let id = self.started.id;
        // It may take a while to end. Without a thread its process stays until the host ends.
        let _ = thread::Builder::new().spawn(move || reap(id));
    }
}

/// Waits for a child that has ended or was killed.
fn reap(id: Pid) -> io::Result<ExitStatus> {
    let ended = waitpid(Some(id), WaitOptions::empty())?;
    let (_, status) = ended.ok_or(Errno::CHILD)?;
    Ok(ExitStatus::from_raw(status.as_raw()))
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
    let failed = |source| ChildError::Start { source };
    let (program, streams) = with_streams(program, task).map_err(failed)?;
    let running = spawn(program).await.map_err(failed)?;
    let bounds = &task.bounds;
    let outcome = async {
        let (_, answer, message, ()) = tokio::try_join!(
            feed(streams.input, &input),
            read_answer(streams.answer, bounds.output_bytes),
            read_stderr(streams.message),
            running.ended()
        )?;
        Ok::<_, ChildError>((answer, message))
    };
    let outcome = timeout(bounds.wall, outcome).await;
    running.kill();
    let status = running.status().await?;
    let (answer, message) = outcome.unwrap_or(Err(ChildError::Time {
        limit_seconds: bounds.wall.as_secs(),
    }))?;
    judge(status, answer, message, bounds)
}

/// A program for a task, and our ends of its streams.
fn with_streams(program: &Path, task: &Task) -> io::Result<(Program, Streams)> {
    let (stdin, input) = pipe()?;
    let (answer, stdout) = pipe()?;
    let (message, stderr) = pipe()?;
    let environment = THREAD_VARIABLES.map(|variable| format!("{variable}={THREADS}").into());
    let first = [program.into(), task.subcommand.into()];
    let program = Program {
        paths: vec![program.into()],
        arguments: [&first, task.arguments.as_slice()].concat(),
        environment: environment.into(),
        streams: [stdin.into(), stdout.into(), stderr.into()],
    };
    let streams = Streams {
        input: Sender::from_owned_fd(input.into())?,
        answer: Receiver::from_owned_fd(answer.into())?,
        message: Receiver::from_owned_fd(message.into())?,
    };
    Ok((program, streams))
}

/// Starts a child on the thread that starts children.
async fn spawn(program: Program) -> io::Result<Running> {
    let (answer, started) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts processes has ended");
    let order = Order { program, answer };
    orders()?.send(order).map_err(|_| gone())?;
    Ok(started.await.map_err(|_| gone())??)
}

fn orders() -> io::Result<mpsc::Sender<Order>> {
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

fn start_all(orders: &mpsc::Receiver<Order>) {
    for order in orders {
        let running = |started| Running {
            started,
            is_reaped: false,
        };
        // If the caller is gone, the child is dropped with the answer, and killed.
        let _ = order.answer.send(start(order.program).map(running));
    }
}

/// Writes the input. A child that does not read all of it reports that by its exit status.
async fn feed(mut stdin: Sender, input: &[u8]) -> Result<(), ChildError> {
    let _ = stdin.write_all(input).await;
    Ok(())
}

async fn read_answer(stdout: Receiver, limit_bytes: u64) -> Result<Vec<u8>, ChildError> {
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
async fn read_stderr(mut stderr: Receiver) -> Result<String, ChildError> {
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
