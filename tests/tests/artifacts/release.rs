//! The files of a release beside its programs: the same whoever makes them, and with all crates of the program.

use serde_json::Value;
use std::collections::BTreeSet;
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
    release::add_crates(&workspace, &output, time).unwrap();
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
        format!("wasmount-{version}.cdx.json"),
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

#[test]
fn a_release_lists_the_crates_of_the_program() {
    let place = tempfile::tempdir().unwrap();
    let workspace = workspace();
    let time = SystemTime::UNIX_EPOCH + COMMITTED;
    release::add_crates(&workspace, place.path(), time).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let text = fs::read_to_string(place.path().join(format!("wasmount-{version}.cdx.json")));
    let text = text.unwrap();
    let listed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(listed["bomFormat"], "CycloneDX");
    assert_eq!(listed["metadata"]["component"]["name"], "wasmount");
    let crates = listed["components"].as_array().unwrap().iter();
    let crates = crates.map(|it| {
        let part = |name: &str| it[name].as_str().unwrap().to_owned();
        (part("name"), part("version"))
    });
    let crates: BTreeSet<_> = crates.collect();
    // Those of the lock file that the program is built of, and none that only tests use.
    let locked = fs::read_to_string(workspace.root().join("Cargo.lock")).unwrap();
    for (name, version) in &crates {
        let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
        assert!(locked.contains(&entry), "{entry}");
    }
    let names: BTreeSet<_> = crates.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["wasmtime", "tonic", "wasmount-mount", "kube-client"] {
        assert!(names.contains(name), "{name}");
    }
    for name in ["wasmount-tests", "xtask", "tempfile"] {
        assert!(!names.contains(name), "{name}");
    }
    let root = workspace.root().to_str().unwrap();
    assert!(
        !text.contains(root) && !text.contains("/tmp/"),
        "a path of this machine"
    );
}
