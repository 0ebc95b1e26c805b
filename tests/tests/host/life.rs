//! The life of a volume over the real socket, with plugins/directory: each call right and wrong, twice, and out of order, with the codes that
//! kubelet and the sidecars act on.

mod apart;
mod idle;
mod order;
mod whole;
mod wishes;

use tonic::Code;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;

/// A call in words, its code, and the code that it must have.
pub(crate) type Row = (&'static str, Code, Code);

pub(crate) async fn serving() -> (Host, Orchestrator) {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    (host, orchestrator)
}

pub(crate) fn assert_codes(table: &[Row]) {
    let wrong: Vec<_> = table
        .iter()
        .filter(|(_, found, expected)| found != expected)
        .collect();
    assert!(wrong.is_empty(), "call, found, expected: {wrong:#?}");
}

pub(crate) fn assert_nothing_left(host: &Host) {
    let left = left_behind(host, &directory_pool(host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}
