//! `cargo xtask deploy`: the generated files of `deploy/`.
//!
//! An overlay's `backend.yaml`, all `kustomization.yaml` and the charts around the printed files are written by hand.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Backends of the image that the chart can install by their names, with their documents.
pub(crate) const IN_CHART: [(&str, &str); 3] = [
    // With what works on any number of nodes.
    ("hostpath", "deploy/overlays/node-local/backend.yaml"),
    ("local-images", "plugins/local-images/backend.yaml"),
    ("nfs", "plugins/nfs/backend.yaml"),
];
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
    let mut print = |path, document: &Path, plugin: &str, flags: &[&str]| {
        let component = workspace.component(plugin);
        let component = Path::new(PLUGINS_IN_IMAGE).join(component.file_name().unwrap_or_default());
        let mut manifests = manifests();
        manifests.arg("--backend").arg(document).args(flags);
        manifests.arg("--plugin-in-image").arg(component);
        let text = command::read(&mut manifests)?;
        printed.push(Printed { path, text });
        Ok::<_, Failure>(())
    };
    for (overlay, plugin) in OVERLAYS {
        let folder = deploy.join("overlays").join(overlay);
        let document = folder.join("backend.yaml");
        let path = folder.join("wasmount.yaml");
        print(path, &document, plugin, &["--topology", overlay])?;
    }
    for (plugin, document) in IN_CHART {
        let path = deploy.join(format!("chart/backends/{plugin}.yaml"));
        print(path, &workspace.root().join(document), plugin, &[])?;
    }
    // A chart can read only files of its own folder.
    printed.push(Printed {
        path: deploy.join("chart/alerts.yaml"),
        text: files::read_text(&deploy.join("monitoring/alerts.yaml"))?,
    });
    Ok(printed)
}

/// Writes all generated files.
pub fn write(workspace: &Workspace) -> Result<(), Failure> {
    for Printed { path, text } in print(workspace)? {
        files::write(&path, text)?;
    }
    Ok(())
}
