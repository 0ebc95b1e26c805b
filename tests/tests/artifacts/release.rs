//! The files of a release beside its programs are the same whoever makes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use xtask::command;
use xtask::release;
use xtask::workspace::Workspace;
use xtask_guests::contract;

/// Some time of a commit, in seconds since 1970.
const COMMITTED: Duration = Duration::from_secs(1_790_000_000);

fn workspace() -> Workspace {
    Workspace::locate().unwrap()
}

/// A release without its programs and its image, which take minutes.
fn texts(directory: &Path) -> PathBuf {
    let output = directory.join("release");
    fs::create_dir(&output).unwrap();
    let time = SystemTime::UNIX_EPOCH + COMMITTED;
    let workspace = workspace();
    release::add_texts(&workspace, &workspace.host_program(), &output).unwrap();
    release::add_charts(&workspace, &output, time).unwrap();
    // What the program of `cargo xtask wit-package` writes.
    let wit = fs::read_to_string(workspace.contract_file()).unwrap();
    let package = contract::package(&wit).unwrap();
    fs::write(output.join(release::CONTRACT), package).unwrap();
    release::add_digests(&output).unwrap();
    output
}

#[test]
fn a_release_has_the_same_files_each_time() {
    let places = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let [first, second] = places.each_ref().map(|it| texts(it.path()));
    let digests = |output: &Path| fs::read_to_string(output.join("SHA256SUMS")).unwrap();
    assert_eq!(digests(&first), digests(&second));
    let version = env!("CARGO_PKG_VERSION");
    let listed = digests(&first);
    for name in [
        format!("wasmount-{version}.tgz"),
        format!("wasmount-shared-{version}.tgz"),
        "manifests/shared.yaml".to_owned(),
        "manifests/local-images.yaml".to_owned(),
        "completions/_wasmount".to_owned(),
        "man/wasmount-serve.1".to_owned(),
        "wasmount-csi.wasm".to_owned(),
    ] {
        assert!(listed.contains(&format!("  {name}\n")), "{name}: {listed}");
    }
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", "SHA256SUMS"]);
    command::read(check.current_dir(&first)).unwrap();
    fs::write(first.join("manifests/shared.yaml"), "").unwrap();
    let mut check = Command::new("sha256sum");
    check.args(["--check", "SHA256SUMS"]).current_dir(&first);
    assert!(command::read(&mut check).is_err());
}
