//! Signing keys, made by cosign's own code (`tests/go/cosign`).

use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::tools::COSIGN;
use xtask::workspace::Workspace;

/// Creates NAME.key, encrypted with this password, and NAME.pub in a directory.
pub fn key_pair(folder: &Path, name: &str, password: &str) -> Result<(), Failure> {
    let program = COSIGN.build(&Workspace::locate()?)?;
    let mut cosign = Command::new(program);
    cosign.args(["generate-key-pair", name]).current_dir(folder);
    command::run(cosign.env("COSIGN_PASSWORD", password))
}
