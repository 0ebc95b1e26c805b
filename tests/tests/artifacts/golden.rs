//! Golden guests: components of every line of the contract that there was, run by the host as it is now. What was released stays: the files of
//! a frozen line, and every type and function of its contract.

mod items;
mod line;

use line::Line;
use std::fs;
use wasmount_tests::directory_life;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

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
fn what_a_line_of_the_contract_had_it_has_still() {
    let workspace = Workspace::locate().unwrap();
    let now = fs::read_to_string(workspace.contract_file()).unwrap();
    for line in lines(&workspace) {
        let lost = line.lost_items(&now);
        assert!(
            lost.is_empty(),
            "{} lost {lost:#?}; {}",
            line.name(),
            line.advice()
        );
    }
}

#[tokio::test]
async fn privileged_golden_guests_live_on_this_host() {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    for line in lines(&Workspace::locate().unwrap()) {
        let components = line.components();
        assert!(components.len() >= 3, "{components:?}");
        for component in components {
            let guest = component.file_stem().unwrap().to_string_lossy();
            let driver = format!("{guest}.golden.wasmount.io");
            let document = documents::of_component(folder.path(), &driver, &component).unwrap();
            let host = Host::start(HostOptions {
                backends: vec![document],
                ..HostOptions::default()
            });
            let host = host.unwrap();
            let orchestrator = host.orchestrator().await.unwrap_or_else(|failure| {
                panic!("{}/{guest}: {failure}; {}", line.name(), line.advice())
            });
            assert_eq!(orchestrator.driver_name().await.unwrap(), driver);
            directory_life::live(&host, &orchestrator).await.unwrap();
        }
    }
}
