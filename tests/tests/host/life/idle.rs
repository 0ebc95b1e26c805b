//! A host without calls.

use crate::life::serving;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;

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

/// Waits until the process does not wake any more.
pub(crate) fn until_it_rests(process: u32) {
    let end = Instant::now() + UNTIL_IDLE;
    loop {
        let before = switches(process);
        sleep(WINDOW);
        let count = switches(process).saturating_sub(before);
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
    until_it_rests(host.id());
}

/// The host asks its mounter every 2 s whether it answers, which is within the bound.
#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_host_and_its_mounter_do_not_wake() {
    needs_root();
    let mut host = Host::start(HostOptions {
        split: Some(0),
        ..HostOptions::default()
    })
    .unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    until_it_rests(host.id());
    until_it_rests(host.mounting().unwrap().id());
}
