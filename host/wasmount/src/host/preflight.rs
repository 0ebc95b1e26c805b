//! Checks whether the host can serve on this node as this user.
//!
//! It creates the host's own directories and queries the kernel; it changes nothing else. It blocks, and runs before the runtime does.

use super::{HostOptions, MounterOptions, MountsOptions, OWN_MODE, make_directory};
use crate::config::Configured;
use crate::fault::Fault;
use rustix::fs::{Access, access};
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::path::Path;
use wasmount_core::driver::Role;

/// The mode that kubelet gives its directory of plugins.
const SOCKETS_MODE: u32 = 0o750;
/// The mode of the directory of the mounter's socket: the client must be able to enter it; the socket's own mode decides who may connect.
const SOCKET_MODE: u32 = 0o711;

/// Creates the directories, and checks the rights.
pub(super) fn check(options: &HostOptions, backends: &[Configured]) -> Result<(), Fault> {
    usable("--data-dir", &options.data_dir, OWN_MODE)?;
    // A pod has only its own drivers' directories mounted.
    let own = backends
        .iter()
        .map(|backend| options.socket(&backend.document.driver_name));
    let own = own.filter_map(|socket| socket.parent().map(Path::to_owned));
    let (there, missing): (Vec<_>, Vec<_>) = own.partition(|directory| directory.is_dir());
    // Objects can add drivers that are not known yet.
    let more = options.storage_backends.is_some() && !options.socket_dir.exists();
    if !missing.is_empty() || more {
        usable("--socket-dir", &options.socket_dir, SOCKETS_MODE)?;
    }
    for directory in there {
        usable("--socket-dir", &directory, SOCKETS_MODE)?;
    }
    let MountsOptions::Here(places) = &options.mounts else {
        return Ok(());
    };
    usable("--run-dir", &places.run_dir, OWN_MODE)?;
    match options.role {
        Role::Controller => Ok(()),
        Role::All => may_mount("role `all`"),
        Role::Node => may_mount("role `node`"),
    }
}

/// The same for `wasmount mounter`.
pub(super) fn check_mounter(options: &MounterOptions) -> Result<(), Fault> {
    usable("--data-dir", &options.data_dir, OWN_MODE)?;
    usable("--run-dir", &options.places.run_dir, OWN_MODE)?;
    if let Some(folder) = options.socket.parent()
        && *folder != *options.places.run_dir
    {
        usable("--socket", folder, SOCKET_MODE)?;
    }
    may_mount("the mounter")
}

fn usable(flag: &'static str, path: &Path, mode: u32) -> Result<(), Fault> {
    writable(path, mode).map_err(|error| {
        let path = path.display();
        Fault::Failed(format!(
            "cannot write {path}: {error}; give {flag} a directory that this user may write"
        ))
    })
}

fn writable(path: &Path, mode: u32) -> io::Result<()> {
    make_directory(path, mode)?;
    Ok(access(path, Access::WRITE_OK | Access::EXEC_OK)?)
}

fn may_mount(who: &'static str) -> Result<(), Fault> {
    let held = capabilities(None).map_err(Fault::failed(
        "the capabilities of this process cannot be read",
    ))?;
    if held.effective.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(());
    }
    Err(Fault::Failed(format!(
        "{who} mounts volumes and needs the capability CAP_SYS_ADMIN, which this process lacks: run it as root (in a container: privileged), \
         in a namespace of its own (`unshare --map-root-user --mount wasmount serve ..`), or serve with --mounter or --role controller"
    )))
}
