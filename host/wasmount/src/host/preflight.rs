//! Whether this node and user can serve at all. Apart so that a missing right is one clear line at the start, not an errno in the middle of
//! a pod's mount.
//!
//! It makes the host's own directories and asks the kernel; it changes nothing else. It blocks, and runs before the runtime does.

use super::HostOptions;
use crate::fault::Fault;
use rustix::fs::{Access, access};
use rustix::thread::{CapabilitySet, capabilities};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use wasmount_core::driver::Role;

/// Only the host reads its store and journal: they name volumes of every tenant.
const OWN_MODE: u32 = 0o700;
/// As kubelet makes its directory of plugins.
const SOCKETS_MODE: u32 = 0o750;

/// Makes the directories, and checks the rights.
pub(super) fn check(options: &HostOptions) -> Result<(), Fault> {
    for (flag, path, mode) in [
        ("--data-dir", &options.data_dir, OWN_MODE),
        ("--run-dir", &options.run_dir, OWN_MODE),
        ("--socket-dir", &options.socket_dir, SOCKETS_MODE),
    ] {
        writable(path, mode).map_err(|source| Fault::Unwritable {
            flag,
            path: path.clone(),
            source,
        })?;
    }
    may_mount(options.role)
}

fn writable(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    Ok(access(path, Access::WRITE_OK | Access::EXEC_OK)?)
}

fn may_mount(role: Role) -> Result<(), Fault> {
    let role = match role {
        Role::Controller => return Ok(()),
        Role::All => "all",
        Role::Node => "node",
    };
    let held = capabilities(None).map_err(Fault::room(
        "the capabilities of this process cannot be read",
    ))?;
    if held.effective.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(());
    }
    Err(Fault::NoMountRight { role })
}
