//! C by clang, wasm-ld and wasi-libc, as Debian packages them. Of the library only memory and strings are used, so nothing of WASI is imported.

use crate::files::{self, Files};
use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;

const COMPILER: &str = "clang";
const CORE: &str = "core.wasm";

/// No start-up code but a reactor's; no library but libc, for the compiler's own is not needed; all code at once, so that what is not used goes.
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

/// What the compiler says of itself.
pub(crate) fn toolchain() -> Result<String, Failure> {
    let said = command::read(Command::new(COMPILER).arg("--version")).map_err(|_| missing())?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// Core code that carries its world.
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
    files::bytes(&folder.join(CORE))
}

fn missing() -> Failure {
    Failure::Missing {
        what: "clang for WebAssembly".to_owned(),
        next: "`apt-get install clang lld wasi-libc`, or the like of your distribution".to_owned(),
    }
}
