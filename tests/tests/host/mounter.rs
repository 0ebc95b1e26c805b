//! A host in two processes: `wasmount mounter` mounts, `wasmount serve` has no right at all. Each of the two is killed without the other, and the
//! socket between them is attacked.

mod directory;
mod hostile;
mod kills;
mod life;
mod ready;
mod taken_over;
mod without_document;

use std::path::{Path, PathBuf};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::mounter::Mounting;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// Root without any capability: what a container without `privileged` is.
const ROOT: u32 = 0;
/// A user who owns nothing of the node.
const NOBODY: u32 = 65534;

/// Two drivers of plugins/directory, in the order of their sockets.
const DRIVERS: [&str; 2] = ["first.test", "second.test"];

/// A document of each, in this folder.
fn two_documents(folder: &Path) -> [PathBuf; 2] {
    let component = Workspace::locate().unwrap().component("directory");
    DRIVERS
        .map(|driver| documents::of_component(folder, driver, &component))
        .map(Result::unwrap)
}

fn split(user: u32) -> Host {
    needs_root();
    Host::start(HostOptions {
        split: Some(user),
        ..HostOptions::default()
    })
    .unwrap()
}

async fn serving(user: u32) -> (Host, Orchestrator) {
    let host = split(user);
    let orchestrator = host.orchestrator().await.unwrap();
    (host, orchestrator)
}

fn mounting(host: &mut Host) -> &mut Mounting {
    host.mounting().unwrap()
}

fn assert_nothing_left(host: &Host) {
    let left = left_behind(host, &directory_pool(host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}
