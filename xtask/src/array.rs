//! `cargo xtask array`: a storage array to try drivers against. It is a separate program, so that the other commands do not wait for its build.

use crate::command;
use crate::failure::Failure;
use crate::workspace::Workspace;
use std::ffi::OsString;
use std::process::Command;

/// Builds the array and becomes it: signals reach it directly. Returns only if that fails.
pub fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<(), Failure> {
    // `--workspace` selects the features that tests have, so that nothing is built twice.
    let mut cargo = workspace.cargo("build");
    command::run(cargo.args(["--quiet", "--workspace", "--bin", "block-array"]))?;
    let mut array = Command::new(workspace.block_array_program());
    command::become_program(array.args(arguments))
}
