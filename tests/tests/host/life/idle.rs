//! A host without calls.

use crate::life::serving;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmount_tests::host::Host;

/// How long the switches are counted.
const WINDOW: Duration = Duration::from_secs(3);
/// Most switches of all threads in that time. 30: the polls of files and of pools are 30 s apart, and cause some at once. A clock of 10 ms causes 300.
const SWITCHES: u64 = 30;
/// How long a busy machine may take until the host is idle: its clock rests a second after the last call.
const UNTIL_IDLE: Duration = Duration::from_secs(60);

/// Voluntary context switches of all threads of a process so far (proc(5)).
fn switches(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let counts = threads.map(|thread| {
        // A thread may have ended since.
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse().unwrap())
    });
    counts.sum()
}

/// Waits until the host does not wake any more.
pub(crate) fn until_it_rests(host: &Host) {
    let end = Instant::now() + UNTIL_IDLE;
    loop {
        let before = switches(host.id());
        sleep(WINDOW);
        let count = switches(host.id()).saturating_sub(before);
        if count <= SWITCHES {
            return;
        }
        assert!(Instant::now() < end, "{count} switches in {WINDOW:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_without_calls_does_not_wake() {
    let (host, orchestrator) = serving().await;
    // A guest has run.
    orchestrator.capacity().await.unwrap();
    until_it_rests(&host);
}
