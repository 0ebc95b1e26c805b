//! Storage for real, with plugins/hostpath: every kind of volume lives, grows and is copied; what it holds is compared byte by byte; full,
//! read-only and dying disks lose nothing that was answered; and no word leads out of the pool.

mod attacks;
mod copies;
mod expansion;
mod full;
mod lives;
mod power;
mod quota;

use tonic::Code;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{hostpath_pool, left_behind};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// What a pod writes: more than a file system keeps in its own structures, and no whole number of blocks.
pub(crate) const CONTENT_BYTES: usize = (1 << 20) - 77;

/// A call in words, its code, and the code that it must have.
pub(crate) type Row = (&'static str, Code, Code);

/// Every test's first line.
pub(crate) fn begin() {
    needs_root();
    namespace::enter();
}

pub(crate) fn options() -> HostOptions {
    let document = Workspace::locate().unwrap().backend_document("hostpath");
    HostOptions {
        backends: vec![document],
        ..HostOptions::default()
    }
}

pub(crate) async fn serving() -> (Host, Orchestrator) {
    serving_as(None).await
}

/// In one process, or mounting in another and serving as this user without any capability.
pub(crate) async fn serving_as(split: Option<u32>) -> (Host, Orchestrator) {
    begin();
    let host = Host::start(HostOptions { split, ..options() }).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    (host, orchestrator)
}

/// Kills the host and starts it over the same directories.
pub(crate) async fn back(host: &mut Host) -> Orchestrator {
    host.kill_9().unwrap();
    host.restart().unwrap();
    host.orchestrator().await.unwrap()
}

pub(crate) fn assert_codes(table: &[Row]) {
    let wrong: Vec<_> = table
        .iter()
        .filter(|(_, found, expected)| found != expected)
        .collect();
    assert!(wrong.is_empty(), "call, found, expected: {wrong:#?}");
}

pub(crate) fn assert_nothing_left(host: &Host) {
    let left = left_behind(host, &hostpath_pool(host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}
