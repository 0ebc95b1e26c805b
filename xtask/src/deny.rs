//! `cargo xtask deny`: cargo-deny over both workspaces.

use crate::command;
use crate::failure::Failure;
use crate::say;
use crate::workspace::Workspace;
use std::process::Command;

/// The version that `deny.toml` is written for.
const VERSION: &str = "0.20.2";

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
    let directory = workspace.tools().join(format!("cargo-deny-{VERSION}"));
    let program = directory.join("bin/cargo-deny");
    if !program.is_file() {
        say::line(&format!("building cargo-deny {VERSION} (minutes)"));
        let mut install = workspace.plain_cargo();
        install.args(["install", "cargo-deny", "--locked", "--version", VERSION]);
        command::run(install.arg("--root").arg(&directory))?;
    }
    let config = workspace.root().join("deny.toml");
    for manifest in workspace.manifests() {
        let mut deny = Command::new(&program);
        deny.arg("--manifest-path").arg(manifest);
        command::run(deny.arg("--config").arg(&config).args(CHECKS))?;
    }
    Ok(())
}
