//! Builds Python by componentize-py, which puts CPython and the program, already imported, into one component. A folder of the plugin pins its version.

use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::python;
use xtask::workspace::Workspace;

/// The folder of a plugin with the requirements.
const PINNED: &str = "componentize";
const REQUIREMENTS: &str = "requirements.txt";
/// The plugin's world and its module.
const WORLD: &str = "plugin";
const MODULE: &str = "app";
const COMPONENT: &str = "component.wasm";

/// The compiler's version, as the plugin pins it.
pub(crate) fn toolchain(plugin: &Path) -> Result<String, Failure> {
    let requirements = xtask::files::read_text(&plugin.join(PINNED).join(REQUIREMENTS))?;
    let pinned = requirements.lines().find(|line| line.contains("=="));
    let pinned = pinned.unwrap_or_default().trim_end_matches([' ', '\\']);
    Ok(pinned.replace("==", " "))
}

/// Compiles to a component.
pub(crate) fn compile(workspace: &Workspace, folder: &Path) -> Result<Vec<u8>, Failure> {
    let packages = python::pinned(workspace, &folder.join(PINNED))?;
    command::read(
        Command::new("python3")
            .current_dir(folder)
            .env("PYTHONPATH", &packages)
            .arg(packages.join("bin/componentize-py"))
            .args(["--wit-path", crate::world::FOLDER, "--world", WORLD])
            .args(["componentize", MODULE, "--output", COMPONENT]),
    )?;
    xtask::files::read(&folder.join(COMPONENT))
}
