//! Programs that cargo installs from crates.io, each in one version.

use crate::command;
use crate::failure::Failure;
use crate::say;
use crate::workspace::Workspace;
use std::path::PathBuf;

/// A program, which has the name of its package.
#[derive(Debug, Clone, Copy)]
pub struct CargoTool {
    /// The name of the package.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

impl CargoTool {
    /// The path of the program; builds it first if necessary. Without optimization: it works for seconds, and compiles for minutes.
    pub fn install(self, workspace: &Workspace) -> Result<PathBuf, Failure> {
        let Self { name, version } = self;
        let directory = workspace.tools().join(format!("{name}-{version}"));
        let program = directory.join("bin").join(name);
        if program.is_file() {
            return Ok(program);
        }
        say::line(&format!("building {name} {version} (a minute or two)"));
        let mut install = workspace.plain_cargo();
        install.args(["install", name, "--version", version]);
        install.args(["--locked", "--debug", "--config", "profile.dev.debug=false"]);
        install.arg("--root").arg(&directory);
        command::run(&mut install)?;
        Ok(program)
    }
}
