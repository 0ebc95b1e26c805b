//! Builds guests by stock Go. Its bindings depend on the module `go.bytecodealliance.org/pkg`, which is part of the generator's own crate as
//! sources: one version for both, and no download.

use crate::files;
use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::tools;
use xtask::workspace::Workspace;

const CORE: &str = "core.wasm";
const MODULE_FILE: &str = "go.mod";
/// The crate that contains the module, and its path there.
const GENERATOR: &str = "wit-bindgen-go";
const MODULE_IN_GENERATOR: &str = "src/pkg";
/// The module is copied to this path beside the guest's sources: an absolute path would end up in the component.
const REPLACEMENT: &str = "\nreplace go.bytecodealliance.org/pkg => ./runtime-module\n";
const REPLACED: &str = "runtime-module";

/// `go` line of that module; also the first Go whose `-buildmode=c-shared` makes a reactor and that exports functions.
const GO_VERSION: (u32, u32) = (1, 25);

/// A library without debug information. The linker lets the module's allocator use the runtime's `sbrk`, which it otherwise forbids.
const ARGUMENTS: &[&str] = &[
    "build",
    "-trimpath",
    "-buildvcs=false",
    "-buildmode=c-shared",
    "-ldflags=-checklinkname=0 -s -w",
    "-o",
    CORE,
    ".",
];

/// Go supports WASI preview 1. Nothing is downloaded, neither modules nor another Go.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GOOS", "wasip1"),
    ("GOARCH", "wasm"),
    ("GOFLAGS", ""),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("GOWORK", "off"),
];

/// Go's version text.
pub(crate) fn toolchain() -> Result<String, Failure> {
    tools::check_go(GO_VERSION, "guests in Go are built with it")?;
    let printed = command::read(Command::new("go").args(["env", "GOVERSION"]))?;
    Ok(printed.trim().to_owned())
}

/// Compiles to core code that does not carry its world yet.
pub(crate) fn compile(workspace: &Workspace, folder: &Path) -> Result<Vec<u8>, Failure> {
    let module = workspace.sources_of(GENERATOR)?.join(MODULE_IN_GENERATOR);
    let module = files::read(&module)?;
    files::write_anew(&folder.join(REPLACED), &module)?;
    let module_file = folder.join(MODULE_FILE);
    let mut text = xtask::files::read(&module_file)?;
    text.extend_from_slice(REPLACEMENT.as_bytes());
    xtask::files::write(&module_file, &text)?;
    command::read(
        Command::new("go")
            .current_dir(folder)
            .envs(ENVIRONMENT.iter().copied())
            .args(ARGUMENTS),
    )?;
    xtask::files::read(&folder.join(CORE))
}
