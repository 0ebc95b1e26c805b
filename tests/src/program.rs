//! Copies of programs that tests run.

use std::path::Path;
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;

/// Copies a program, in another process: while this one has the copy open for writing, so has every child that another test starts, until its
/// exec. The kernel runs no file that is open for writing (execve(2), `ETXTBSY`).
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    command::run(Command::new("cp").arg("--").arg(from).arg(to))
}
