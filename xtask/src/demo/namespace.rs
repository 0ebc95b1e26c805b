//! The namespaces of the demo's mounts: as root the present ones; otherwise a user and mount namespace of its own, in which it is root.

use super::DemoOptions;
use crate::command;
use crate::failure::Failure;
use crate::say;
use std::path::Path;
use std::process::Command;

/// Creates both namespaces, with the caller's user as root inside.
const UNSHARE: [&str; 3] = ["--user", "--map-root-user", "--mount"];

/// Returns if the user is root; otherwise runs `program` as the demo inside a namespace, in place of this process, and does not return.
pub(super) fn enter(program: &Path, options: &DemoOptions) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        say::line("running as root: mounts are made directly");
        return Ok(());
    }
    let trial = command::try_read(Command::new("unshare").args(UNSHARE).arg("true"))?;
    if !trial.status.success() {
        let reason = String::from_utf8_lossy(&trial.stderr);
        return Err(Failure::missing(
            format!("the right to make user namespaces ({})", reason.trim()),
            "run the demo as root, or allow them (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)",
        ));
    }
    say::line("not root: running in a user and mount namespace");
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg("--").arg(program);
    command.args(["demo", "--prepared"]);
    if options.keep {
        command.arg("--keep");
    }
    // Replaced by exec, not started as a child: Ctrl-C then reaches one process, the one that tears down.
    command::become_program(&mut command)
}
