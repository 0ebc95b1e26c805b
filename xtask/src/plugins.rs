//! Builds the guests and, for commands that run it, the host: two cargo workspaces, since guests are built for another target. Guests in other
//! languages are built by a separate program, `xtask-guests`: few commands need them, and it is large.

use crate::command;
use crate::failure::Failure;
use crate::packages;
use crate::platform::Architecture;
use crate::toolchain::{self, GUEST_TARGET};
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that builds guests in other languages.
const GUESTS: &str = "xtask-guests";
/// A crate from a registry that guests depend on; their other registry crates are in the same directory.
const FOREIGN_CRATE: &str = "sha2";

/// Languages that guests are built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Languages {
    /// All plugins but those named below
    Rust,
    /// plugins/directory-c
    C,
    /// plugins/directory-go
    Go,
    /// plugins/directory-js
    #[value(name = "javascript")]
    JavaScript,
    /// plugins/directory-python
    Python,
    /// All of these
    All,
}

/// Builds the plugins of some languages.
pub fn build_languages(workspace: &Workspace, languages: Languages) -> Result<(), Failure> {
    let (rust, others): (_, &[_]) = match languages {
        Languages::Rust => (true, &[]),
        Languages::C => (false, &["c"]),
        Languages::Go => (false, &["go"]),
        Languages::JavaScript => (false, &["javascript"]),
        Languages::Python => (false, &["python"]),
        Languages::All => (true, &["c", "go", "javascript", "python"]),
    };
    if rust {
        build(workspace)?;
    }
    if others.contains(&"c") {
        packages::install(packages::C)?;
    }
    if others.is_empty() {
        return Ok(());
    }
    guests(workspace, &[&["build"], others].concat())
}

/// Builds golden guests for the present contract and records them in `tests/golden`.
pub fn record_golden(workspace: &Workspace) -> Result<(), Failure> {
    packages::install(packages::C)?;
    guests(workspace, &["record"])
}

/// Writes the contract's package in binary form.
pub fn write_package(workspace: &Workspace, output: &Path) -> Result<(), Failure> {
    // The program runs at the top of the checkout.
    let output = std::path::absolute(output).map_err(Failure::cannot("find the output"))?;
    let mut cargo = guests_program(workspace);
    command::run(cargo.arg("wit-package").arg(output))
}

/// Runs the program of the guests with these arguments, which `xtask/guests/src/main.rs` explains.
pub fn guests(workspace: &Workspace, arguments: &[&str]) -> Result<(), Failure> {
    command::run(guests_program(workspace).args(arguments))
}

fn guests_program(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo("run");
    cargo.args(["--quiet", "--package", GUESTS, "--"]);
    cargo
}

/// Builds all plugins in Rust into `plugins/target`, where each `backend.yaml` expects them.
pub fn build(workspace: &Workspace) -> Result<(), Failure> {
    build_selected(workspace, &["--workspace"])
}

/// Builds one of them there. Its dependencies are the same ones, so that building the others later builds nothing twice.
pub fn build_one(workspace: &Workspace, plugin: &str) -> Result<(), Failure> {
    build_selected(workspace, &["--package", plugin])
}

fn build_selected(workspace: &Workspace, packages: &[&str]) -> Result<(), Failure> {
    toolchain::target(GUEST_TARGET)?;
    let mut cargo = workspace.plugins_cargo("build");
    cargo.args(["--release", "--target", GUEST_TARGET]);
    cargo.args(packages);
    // Committed, but absent while the first build creates it.
    if workspace.plugins().join("Cargo.lock").exists() {
        cargo.arg("--locked");
    }
    command::run(&mut cargo)
}

/// Builds one plugin so that it contains no path of this machine, and returns the component.
pub fn build_without_paths(workspace: &Workspace, plugin: &str) -> Result<PathBuf, Failure> {
    toolchain::target(GUEST_TARGET)?;
    // Different flags in the same target directory would rebuild all other guests.
    let target = workspace.plugins_target().join("without-paths");
    let mut cargo = workspace.plain_cargo();
    cargo
        .arg("build")
        .arg("--manifest-path")
        .arg(workspace.plugins_manifest())
        .args(["--release", "--locked", "--target", GUEST_TARGET])
        .args(["--package", plugin, "--target-dir"])
        .arg(&target)
        .envs(without_paths(workspace)?);
    command::run(&mut cargo)?;
    Ok(target
        .join(GUEST_TARGET)
        .join("release")
        .join(format!("{}.wasm", plugin.replace('-', "_"))))
}

/// Builds the host's program for a release, so that it contains no path of this machine, and returns it.
pub fn build_host_without_paths(
    workspace: &Workspace,
    architecture: Architecture,
) -> Result<PathBuf, Failure> {
    let target = architecture.target();
    let directory = workspace.without_paths();
    let mut cargo = workspace.plain_cargo();
    cargo
        .args(["build", "--release", "--locked", "--package", "wasmount"])
        .args(["--target", &target, "--target-dir"])
        .arg(&directory)
        // As fast as "thin", with a file that is 9 % smaller and less memory (docs/performance.md). The link takes twice the time, so builds for
        // oneself do without.
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .envs(without_paths(workspace)?);
    if architecture != Architecture::of_this_machine()? {
        toolchain::target(&target)?;
        let compiler = format!("{}-gcc", architecture.prefix());
        // Cargo's and the crate cc's names for a target in variables.
        let name = target.replace('-', "_");
        let linker = format!("CARGO_TARGET_{}_LINKER", name.to_uppercase());
        cargo
            .env(linker, &compiler)
            .env(format!("CC_{name}"), &compiler);
    }
    command::run(&mut cargo)?;
    Ok(directory.join(target).join("release/wasmount"))
}

/// Variables of a build whose results contain no path of this machine.
fn without_paths(workspace: &Workspace) -> Result<[(&'static str, String); 2], Failure> {
    let crates = workspace.sources_of(FOREIGN_CRATE)?;
    let crates = crates.parent().unwrap_or(&crates);
    let places = [(crates, "crates"), (workspace.root(), "wasmount")];
    let flags = |option: &str, separator| {
        let flags = places.map(|(path, name)| format!("{option}={}={name}", path.display()));
        flags.join(separator)
    };
    Ok([
        // Cargo separates flags by this character, since paths may hold spaces.
        (
            "CARGO_ENCODED_RUSTFLAGS",
            flags("--remap-path-prefix", "\x1f"),
        ),
        ("CFLAGS", flags("-ffile-prefix-map", " ")),
    ])
}

/// Builds the host's program beside this one. `--workspace` selects features for the whole workspace, as for this program and for tests, so that
/// nothing is built twice.
pub fn build_host(workspace: &Workspace) -> Result<(), Failure> {
    let mut cargo = workspace.cargo("build");
    command::run(cargo.args(["--workspace", "--bin", "wasmount"]))
}
