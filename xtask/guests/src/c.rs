//! Builds C by clang, wasm-ld and wasi-libc, as Debian packages them. Only memory and strings of the library are used, so no WASI is imported.

use crate::files::Files;
use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;

const COMPILER: &str = "clang";
const CORE: &str = "core.wasm";

/// Only a reactor's start-up code; no library but libc, since the compiler's own is not needed; link-time optimisation removes unused code.
const ARGUMENTS: &[&str] = &[
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-nodefaultlibs",
    "-std=c17",
    "-Os",
    "-flto",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--strip-all",
    "-o",
    CORE,
];

/// The compiler's version text.
pub(crate) fn toolchain() -> Result<String, Failure> {
    let printed = command::read(Command::new(COMPILER).arg("--version")).map_err(|_| missing())?;
    Ok(printed.lines().next().unwrap_or_default().to_owned())
}

/// Compiles to core code that carries its world.
pub(crate) fn compile(folder: &Path, tree: &Files) -> Result<Vec<u8>, Failure> {
    let inputs = tree
        .keys()
        .filter(|name| name.ends_with(".c") || name.ends_with(".o"));
    command::read(
        Command::new(COMPILER)
            .current_dir(folder)
            .args(ARGUMENTS)
            .args(inputs)
            .arg("-lc"),
    )?;
    xtask::files::read(&folder.join(CORE))
}

fn missing() -> Failure {
    Failure::missing(
        "clang for WebAssembly",
        "`apt-get install clang lld wasi-libc`, or the like of your distribution",
    )
}
