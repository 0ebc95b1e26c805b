//! plugins/podfiles on the real host: pods find who they are and their tokens, a renewal is never half there, and no token lies anywhere but
//! in its file.

mod pod;
mod pods;
mod renewal;
mod secrecy;

use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::left_without_pool;
use wasmount_tests::namespace;
use wasmount_tests::root::needs_root;
use xtask::clients::Clients;
use xtask::workspace::Workspace;

/// In one process, or mounting in another.
const FORMS: [Option<u32>; 2] = [None, Some(0)];

/// A host and clients of it.
async fn serving(split: Option<u32>) -> (Host, Clients) {
    serving_with(split, &[]).await
}

/// The same with further arguments.
async fn serving_with(split: Option<u32>, more: &[&str]) -> (Host, Clients) {
    needs_root();
    namespace::enter();
    let document = Workspace::locate().unwrap().backend_document("podfiles");
    let host = Host::start(HostOptions {
        backends: vec![document],
        more: more.iter().map(Into::into).collect(),
        split,
        ..HostOptions::default()
    });
    let host = host.unwrap();
    let clients = host.client().await.unwrap();
    (host, clients)
}

fn assert_nothing_left(host: &Host) {
    let left = left_without_pool(host).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}
