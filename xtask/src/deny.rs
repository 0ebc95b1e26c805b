//! `cargo xtask deny`: cargo-deny over both workspaces.

use crate::cargo_tool::CargoTool;
use crate::command;
use crate::failure::Failure;
use crate::workspace::Workspace;
use std::process::Command;

/// The program, in the version that `deny.toml` is written for.
const DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
};

/// Advisories are left out: their database is a git repository that must be fetched again each time. A skip that one of the two workspaces
/// does not need is not an error; one that neither needs is found by the rules.
const CHECKS: [&str; 6] = [
    "check",
    "--allow",
    "unmatched-skip",
    "bans",
    "licenses",
    "sources",
];

/// Checks licences, sources and bans.
pub fn run(workspace: &Workspace) -> Result<(), Failure> {
    let program = DENY.install(workspace)?;
    let config = workspace.root().join("deny.toml");
    for manifest in workspace.manifests() {
        let mut deny = Command::new(&program);
        deny.arg("--manifest-path").arg(manifest);
        command::run(deny.arg("--config").arg(&config).args(CHECKS))?;
    }
    Ok(())
}
