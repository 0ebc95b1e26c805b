//! Parts of the toolchain beside the compiler: the guests' target, the formatter, the linter. Missing parts are added by rustup.

use crate::command;
use crate::failure::Failure;
use crate::say;
use std::path::Path;
use std::process::Command;

/// The compilation target of guests: WASI 0.2 components.
pub const GUEST_TARGET: &str = "wasm32-wasip2";

/// Components that the tests use beside the compiler: rustup's minimal profile leaves both out.
const COMPONENTS: [&str; 2] = ["rustfmt", "clippy"];

/// Adds the formatter and the linter if cargo does not have them.
pub fn components() -> Result<(), Failure> {
    let has = |subcommand: &str| {
        command::try_read(Command::new("cargo").args([subcommand, "--version"]))
            .is_ok_and(|tried| tried.status.success())
    };
    if has("fmt") && has("clippy") {
        return Ok(());
    }
    add("component", "the components", &COMPONENTS)
}

/// Adds a target if the compiler does not have it.
pub fn target(name: &str) -> Result<(), Failure> {
    let print = ["--print", "target-libdir", "--target", name];
    // Where the compiler looks for the target's own libraries.
    let directory = command::read(Command::new("rustc").args(print))?;
    if Path::new(directory.trim()).is_dir() {
        return Ok(());
    }
    add("target", "the compiler target", &[name])
}

fn add(kind: &str, what: &str, names: &[&str]) -> Result<(), Failure> {
    let list = names.join(" ");
    say::line(&format!("adding {what} {list} by rustup"));
    command::run(Command::new("rustup").args([kind, "add"]).args(names)).map_err(|_| {
        Failure::missing(
            format!("{what} {list}"),
            format!("`rustup {kind} add {list}`, or install it as your distribution does"),
        )
    })
}

/// The compiler's version text.
pub fn compiler() -> Result<String, Failure> {
    let printed = command::read(Command::new("rustc").arg("--version"))?;
    Ok(printed.trim().to_owned())
}
