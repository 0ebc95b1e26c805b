//! Durable waits: how often the server asks the kernel to put data on stable storage, counted by strace.
//!
//! strace slows its subject down, so it is attached after the measurement, for some further repetitions.

use std::future::Future;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The system calls that wait for stable storage. Writes to a descriptor with O_SYNC are not among them.
const CALLS: &str = "trace=fsync,fdatasync,sync,syncfs,msync";
/// How all of them are shown; the second part of an interrupted line has no parenthesis after the name.
const SHOWN: [&str; 2] = ["sync(", "syncfs("];
/// How its own messages begin.
const OWN: &str = "strace: ";
/// How strace says that it is attached to a process.
const ATTACHED: &str = " attached";
/// How long it may take to attach and to detach.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of the work, and how often the processes waited meanwhile; or why that is unknown.
pub(crate) async fn count<T>(
    pids: &[i32],
    work: impl Future<Output = T>,
) -> (Option<T>, Result<u64, String>) {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-e", CALLS, "-e", "signal=none"])
        .args(
            pids.iter()
                .flat_map(|pid| ["-p".to_owned(), pid.to_string()]),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // It is in a process group of its own: an interrupt by the terminal concerns the work, which ends it.
        .process_group(0)
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (None, Err(format!("strace cannot be started: {error}"))),
    };
    let Some(output) = child.stderr.take() else {
        return (None, Err("strace has no output".to_owned()));
    };
    let mut lines = BufReader::new(output).lines();
    let mut attached = 0;
    while attached < pids.len() {
        match timeout(PATIENCE, lines.next_line()).await {
            Ok(Ok(Some(line))) if line.contains(ATTACHED) => attached += 1,
            Ok(Ok(Some(line))) if line.starts_with(OWN) => return (None, Err(line)),
            // Calls of the first process while the next one is attached to.
            Ok(Ok(Some(_))) => {}
            _ => return (None, Err("strace does not attach".to_owned())),
        }
    }
    // Read while the work is done: a full pipe would stop strace, and the server with it.
    let counting = tokio::spawn(async move {
        let mut count = 0;
        while let Ok(Some(line)) = lines.next_line().await {
            count += u64::from(is_wait(&line));
        }
        count
    });
    let done = work.await;
    let counted = match end(&mut child).await {
        Ok(()) => timeout(PATIENCE, counting).await,
        Err(reason) => return (Some(done), Err(reason)),
    };
    match counted {
        Ok(Ok(count)) => (Some(done), Ok(count)),
        _ => (
            Some(done),
            Err("the output of strace does not end".to_owned()),
        ),
    }
}

/// Ends it; the kernel lets traced processes go on when their tracer ends (ptrace(2)).
async fn end(child: &mut Child) -> Result<(), String> {
    let killed = timeout(PATIENCE, child.kill()).await;
    match killed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("strace does not end: {error}")),
        Err(_) => Err("strace does not end".to_owned()),
    }
}

fn is_wait(line: &str) -> bool {
    SHOWN.iter().any(|it| line.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_once_each_however_they_are_shown() {
        for counted in [
            "[pid 12] fdatasync(9) = 0",
            "[pid 12] fsync(9 <unfinished ...>",
            "msync(0x7f, 4096, MS_SYNC) = 0",
            "sync() = 0",
            "syncfs(4) = 0",
        ] {
            assert!(is_wait(counted), "{counted}");
        }
        for passed in [
            "[pid 12] <... fdatasync resumed>) = 0",
            "strace: Process 12 attached",
            "[pid 12] +++ exited with 0 +++",
        ] {
            assert!(!is_wait(passed), "{passed}");
        }
    }
}
