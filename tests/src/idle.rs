//! Processes that do nothing: how often they wake.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::failure::Failure;
use xtask::files;

/// How long the switches are counted.
const WINDOW: Duration = Duration::from_secs(3);
/// Most switches of all threads in that time. 30: the polls of files and of pools are 30 s apart, and cause some at once, and so do a leader's lease and
/// the bookmarks of watches. A clock of 10 ms causes 300.
const SWITCHES: u64 = 30;
/// How long a busy machine may take until the host is idle: its clock rests a second after the last call.
const UNTIL_IDLE: Duration = Duration::from_secs(60);

/// Waits until a process does not wake any more.
pub fn until_it_rests(process: u32) -> Result<(), Failure> {
    let end = Instant::now() + UNTIL_IDLE;
    loop {
        let before = switches(process)?;
        sleep(WINDOW);
        let count = switches(process)?.saturating_sub(before);
        if count <= SWITCHES {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Failure::Unexpected(format!(
                "process {process} switches {count} times in {WINDOW:?}"
            )));
        }
    }
}

/// Voluntary context switches of all threads of a process so far (proc(5)).
fn switches(process: u32) -> Result<u64, Failure> {
    let threads = files::entries(Path::new(&format!("/proc/{process}/task")))?;
    let counts = threads.iter().map(|thread| {
        // A thread may have ended since.
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(Ok(0), |count| count.trim().parse::<u64>())
    });
    let sum = counts.sum::<Result<u64, _>>();
    sum.map_err(Failure::cannot("read context switches"))
}
