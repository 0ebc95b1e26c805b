//! Parts of the toolchain beside the compiler: the guests' target, the formatter, the linter. Missing parts are added by rustup.

use crate::command;
use crate::failure::Failure;
use crate::say::Console;
use std::path::Path;
use std::process::Command;

/// The compilation target of guests: WASI 0.2 components.
pub const GUEST_TARGET: &str = "wasm32-wasip2";

/// Components that the tests use beside the compiler: rustup's minimal profile leaves both out.
const COMPONENTS: [&str; 2] = ["rustfmt", "clippy"];

/// Adds the formatter and the linter if cargo does not have them.
pub fn components(console: &Console) -> Result<(), Failure> {
    let has = |subcommand: &str| {
        command::try_read(Command::new("cargo").args([subcommand, "--version"]))
            .is_ok_and(|tried| tried.status.success())
    };
    if has("fmt") && has("clippy") {
        return Ok(());
    }
    let list = COMPONENTS.join(" ");
    console.line(&format!("adding {list} by rustup"));
    command::run(
        Command::new("rustup")
            .args(["component", "add"])
            .args(COMPONENTS),
    )
    .map_err(|_| Failure::Missing {
        what: format!("the components {list}"),
        next: format!("`rustup component add {list}`, or install them as your distribution does"),
    })
}

/// Adds the guests' target if the compiler does not have it.
pub fn guest_target(console: &Console) -> Result<(), Failure> {
    if has_target()? {
        return Ok(());
    }
    console.line(&format!("adding the target {GUEST_TARGET} by rustup"));
    command::run(Command::new("rustup").args(["target", "add", GUEST_TARGET])).map_err(|_| {
        Failure::Missing {
            what: format!("the compiler target {GUEST_TARGET}"),
            next: format!(
                "`rustup target add {GUEST_TARGET}`, or install it as your distribution does"
            ),
        }
    })
}

/// The compiler's version text.
pub fn compiler() -> Result<String, Failure> {
    let said = command::read(Command::new("rustc").arg("--version"))?;
    Ok(said.trim().to_owned())
}

/// Whether the target's own libraries are where the compiler looks for them.
fn has_target() -> Result<bool, Failure> {
    let directory = command::read(Command::new("rustc").args([
        "--print",
        "target-libdir",
        "--target",
        GUEST_TARGET,
    ]))?;
    Ok(Path::new(directory.trim()).is_dir())
}
