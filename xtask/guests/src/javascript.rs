//! Builds JavaScript by componentize-qjs, which puts the QuickJS engine and the program, already parsed, into one component. A folder of the plugin pins
//! its version.

use crate::files;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::tools;
use xtask::workspace::Workspace;

/// The folder of a plugin with `package.json` and the lock file.
const PINNED: &str = "componentize";
const MANIFEST: &str = "package.json";
/// The plugin's first module.
const PROGRAM: &str = "backend.js";
const COMPONENT: &str = "component.wasm";

/// No component-model async, which the host does not offer; a runtime that is optimised for size, half as large as the other one.
const ARGUMENTS: &[&str] = &["--sync", "--opt-size", "--minify"];

/// The compiler's version, as the plugin pins it.
pub(crate) fn toolchain(plugin: &Path) -> Result<String, Failure> {
    let manifest = plugin.join(PINNED).join(MANIFEST);
    let manifest: serde_json::Value =
        serde_json::from_slice(&xtask::files::read(&manifest)?).unwrap_or_default();
    let version = manifest.pointer("/dependencies/componentize-qjs");
    let version = version.and_then(serde_json::Value::as_str);
    Ok(format!("componentize-qjs {}", version.unwrap_or_default()))
}

/// Compiles to a component.
pub(crate) fn compile(workspace: &Workspace, folder: &Path) -> Result<Vec<u8>, Failure> {
    let program = installed(workspace, &folder.join(PINNED))?;
    command::read(
        Command::new(program)
            .current_dir(folder)
            .args(["--wit", crate::world::FOLDER, "--js", PROGRAM])
            .args(["--output", COMPONENT])
            .args(ARGUMENTS),
    )?;
    xtask::files::read(&folder.join(COMPONENT))
}

/// The compiler, which npm installs by the digests of the lock file, if it did not before.
fn installed(workspace: &Workspace, pinned: &Path) -> Result<PathBuf, Failure> {
    let digest = tools::digest(pinned, "")?;
    let directory = workspace.tools().join(format!("componentize-qjs-{digest}"));
    if !directory.is_dir() {
        xtask::files::complete(&directory, |unfinished| {
            files::write_anew(unfinished, &files::read(pinned)?)?;
            let ran = command::read(Command::new("npm").current_dir(unfinished).args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
            ]));
            ran.map(drop).map_err(|_| {
                Failure::missing(
                    "Node.js 18 or later with npm",
                    "`apt-get install nodejs npm`, or the like of your distribution",
                )
            })
        })?;
    }
    Ok(directory.join("node_modules/.bin/componentize-qjs"))
}
