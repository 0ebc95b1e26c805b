//! Compiled code, and directories of commands, without an owner: the next host removes them, and never what is in use.

use crate::compile::PATIENCE;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use wasmount_artifact::Digest;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// Drivers, in the order of their names.
const STAYS: &str = "a-stays";
const GOES: &str = "b-goes";

/// A component that is like no other: its document, and its digits.
fn backend(folder: &Path, driver: &str) -> (PathBuf, String) {
    let component = Workspace::locate().unwrap().component("directory");
    let mut wasm = fs::read(component).unwrap();
    // A custom section that is called by one letter.
    wasm.extend([0, 2, 1, driver.as_bytes()[0]]);
    let file = folder.join(format!("{driver}.wasm"));
    fs::write(&file, &wasm).unwrap();
    let document = documents::of_component(folder, driver, &file).unwrap();
    (document, Digest::of(&wasm).hex().to_owned())
}

/// Digits of the components of which there is compiled code.
fn compiled(host: &Host) -> BTreeSet<String> {
    let entries = fs::read_dir(host.data().join("compiled")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let digits = names.map(|name| name.split_once('-').unwrap().0.to_owned());
    digits.collect()
}

/// Makes the compiled code so old that a start removes what no backend claims.
fn age(host: &Host) {
    for entry in fs::read_dir(host.data().join("compiled")).unwrap() {
        let file = File::options().write(true).open(entry.unwrap().path());
        let two_hours = Duration::from_hours(2);
        file.unwrap()
            .set_modified(SystemTime::now() - two_hours)
            .unwrap();
    }
}

async fn all_serve(host: &Host) {
    for socket in host.sockets() {
        Orchestrator::connect(socket, &host.kubelet())
            .await
            .unwrap();
    }
}

/// A command that was killed in the middle of its work; what it left.
fn killed_command() -> PathBuf {
    let component = Workspace::locate().unwrap().component("directory");
    let mut command = Command::new(Workspace::locate().unwrap().host_program());
    command.arg("inspect").arg(component).stdout(Stdio::null());
    let mut child: Child = command.spawn().unwrap();
    let name = format!("wasmount-workbench-{}-0", child.id());
    let left = std::env::temp_dir().join(name);
    let started = Instant::now();
    while !left.exists() {
        assert!(
            started.elapsed() < PATIENCE,
            "{} never came; the command: {:?}",
            left.display(),
            child.try_wait()
        );
        thread::sleep(LOOK);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    left
}

#[tokio::test]
async fn privileged_leftovers_of_a_removed_backend_go_at_start() {
    needs_root();
    let folder: TempDir = tempfile::tempdir().unwrap();
    let (stays, stays_digits) = backend(folder.path(), STAYS);
    let (goes, goes_digits) = backend(folder.path(), GOES);
    let mut host = Host::start(HostOptions {
        backends: vec![stays.clone(), goes],
        ..HostOptions::default()
    })
    .unwrap();
    all_serve(&host).await;
    let both = BTreeSet::from([stays_digits.clone(), goes_digits]);
    assert_eq!(compiled(&host), both);

    // A host that is killed and comes back with the same backends compiles nothing again.
    host.kill_9().unwrap();
    let before = fs::read_dir(host.data().join("compiled")).unwrap().count();
    host.restart().unwrap();
    all_serve(&host).await;
    assert_eq!(compiled(&host), both);
    let after = fs::read_dir(host.data().join("compiled")).unwrap().count();
    assert_eq!(after, before);

    // What another version of the host compiled is of no use to this one.
    host.kill_9().unwrap();
    let other = format!("{stays_digits}-0000000000000000");
    fs::write(host.data().join("compiled").join(&other), "other").unwrap();
    let left = killed_command();
    host.options().backends = vec![stays];
    // Recent code stays.
    host.restart().unwrap();
    all_serve(&host).await;
    assert_eq!(compiled(&host), both);
    host.kill_9().unwrap();
    age(&host);
    host.restart().unwrap();
    all_serve(&host).await;
    assert_eq!(compiled(&host), BTreeSet::from([stays_digits]));
    assert!(!host.data().join("compiled").join(other).exists());
    assert!(!left.exists());
    let words = "removed compiled components that no backend claims any more";
    assert!(host.log().contains(words), "{}", host.log());
}
