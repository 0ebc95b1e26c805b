//! `cargo xtask deploy`: the generated files of `deploy/`.
//!
//! An overlay's `backend.yaml` and all `kustomization.yaml` are written by hand.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::workspace::Workspace;
use std::path::PathBuf;
use std::process::Command;

/// Overlays, with their form and the component's name.
const OVERLAYS: [(&str, &str); 2] = [("node-local", "hostpath"), ("network", "hostpath")];
/// The directory of the plugins in the image (`deploy/Containerfile`).
const PLUGINS_IN_IMAGE: &str = "/opt/wasmount/plugins";

/// A file, and its expected content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its path.
    pub path: PathBuf,
    /// Its whole content.
    pub text: String,
}

/// Generates all files with the built host's program.
pub fn print(workspace: &Workspace) -> Result<Vec<Printed>, Failure> {
    let deploy = workspace.root().join("deploy");
    let manifests = || {
        let mut command = Command::new(workspace.host_program());
        command.arg("manifests");
        command
    };
    let mut printed = vec![Printed {
        path: deploy.join("shared/wasmount.yaml"),
        text: command::read(manifests().arg("--shared"))?,
    }];
    for (overlay, plugin) in OVERLAYS {
        let folder = deploy.join("overlays").join(overlay);
        let text = command::read(
            manifests()
                .args(["--topology", overlay, "--backend"])
                .arg(folder.join("backend.yaml"))
                .arg(format!(
                    "--plugin-in-image={PLUGINS_IN_IMAGE}/{plugin}.wasm"
                )),
        )?;
        let path = folder.join("wasmount.yaml");
        printed.push(Printed { path, text });
    }
    Ok(printed)
}

/// Writes all generated files.
pub fn write(workspace: &Workspace) -> Result<(), Failure> {
    for Printed { path, text } in print(workspace)? {
        files::write(&path, text)?;
    }
    Ok(())
}
