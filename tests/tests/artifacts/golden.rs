//! Golden guests: components of every line of the contract that there was, run by the host as it is now. What was released stays: the files of
//! a frozen line, and its interfaces.

mod interfaces;
mod line;

use line::Line;
use std::fs;
use std::path::Path;
use std::process::Command;
use wasmount_tests::compiled::CommandCache;
use wasmount_tests::directory_life::{self, Build};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use xtask::command;
use xtask::workspace::Workspace;

/// The guests with an interpreter, which import WASI.
const JAVASCRIPT: &str = "javascript-directory.wasm";
const PYTHON: &str = "python-directory.wasm.xz";

fn lines(workspace: &Workspace) -> Vec<Line> {
    let lines = Line::all(workspace);
    // An empty folder must not pass for a kept promise.
    assert!(lines.iter().any(|line| line.name() == "0.1"), "{lines:?}");
    lines
}

#[test]
fn golden_files_are_as_they_were_recorded() {
    for line in lines(&Workspace::locate().unwrap()) {
        let changes = line.changes();
        assert!(
            changes.is_empty(),
            "{}: {changes:?}; {}",
            line.name(),
            line.advice()
        );
    }
}

#[test]
fn the_contract_keeps_what_its_lines_had() {
    let workspace = Workspace::locate().unwrap();
    let now = fs::read_to_string(workspace.contract_file()).unwrap();
    for line in lines(&workspace) {
        let broken = line.broken(&now);
        assert!(
            broken.is_empty(),
            "{}: {broken:#?}; {}",
            line.name(),
            line.advice()
        );
    }
}

/// Compiles a component by a command that waits for it, so that a host finds its code: CPython takes 40 s in a debug build, and an orchestrator waits
/// for a plugin no longer than a minute.
fn compile_ahead(workspace: &Workspace, component: &Path) {
    let cache = CommandCache::of(&[component]).unwrap();
    let mut inspect = Command::new(workspace.host_program());
    inspect.arg("inspect").arg(component);
    command::read(inspect.env("WASMOUNT_CACHE", cache.path())).unwrap();
}

#[tokio::test]
async fn privileged_golden_guests_live_on_this_host() {
    needs_root();
    let workspace = Workspace::locate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for line in lines(&workspace) {
        let mut guests = line.guests();
        guests.retain(|guest| *guest != interfaces::GUEST);
        assert!(guests.len() >= 5, "{guests:?}");
        for guest in guests {
            let component = line.component(&workspace, guest).unwrap();
            let (name, _) = guest.split_once('.').unwrap();
            let driver = format!("{name}.golden.wasmount.io");
            if guest == PYTHON {
                compile_ahead(&workspace, &component);
            }
            let document = match guest {
                JAVASCRIPT | PYTHON => {
                    documents::of_component_with_wasi(folder.path(), &driver, &component)
                }
                _ => documents::of_component(folder.path(), &driver, &component),
            };
            let host = Host::start(HostOptions {
                backends: vec![document.unwrap()],
                ..HostOptions::default()
            });
            let host = host.unwrap();
            let orchestrator = host.orchestrator().await.unwrap_or_else(|failure| {
                panic!("{}/{guest}: {failure}; {}", line.name(), line.advice())
            });
            assert_eq!(orchestrator.driver_name().await.unwrap(), driver);
            directory_life::live(&host, &orchestrator, Build::Golden)
                .await
                .unwrap();
        }
    }
}
