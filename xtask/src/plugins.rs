//! Builds the guests and, for those who drive it, the host: two cargo workspaces, since guests are built for another target.

use crate::command;
use crate::failure::Failure;
use crate::say::Console;
use crate::toolchain::{self, GUEST_TARGET};
use crate::workspace::Workspace;

/// Builds all plugins into `plugins/target`, where each `backend.yaml` looks.
pub fn build(workspace: &Workspace, console: &Console) -> Result<(), Failure> {
    toolchain::guest_target(console)?;
    let mut cargo = workspace.plugins_cargo("build");
    cargo.args(["--release", "--target", GUEST_TARGET]);
    if workspace.plugins_lock().exists() {
        cargo.arg("--locked");
    }
    command::run(&mut cargo)
}

/// Builds the host's program beside this one. All programs of the workspace at once, so that features are the same as for its tests and
/// nothing is built twice.
pub fn build_host(workspace: &Workspace) -> Result<(), Failure> {
    command::run(workspace.cargo("build").args(["--workspace", "--bins"]))
}
