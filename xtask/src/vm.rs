//! `cargo xtask vm`: runs a command as root on another kernel, in a VM that is thrown away: User Mode Linux, a kernel of Debian that runs as a
//! process. It needs no virtualization, boots in seconds, and reads the directories of this machine.

mod machine;
mod system;

pub use system::{build, build_ceph};

use crate::failure::Failure;
use crate::packages;
use crate::place;
use crate::workspace::Workspace;
use machine::{Machine, share};
use std::ffi::OsString;
use std::path::PathBuf;

/// Prefix of the temporary directories of VMs, so that a later run finds the leftovers of a killed one.
const PREFIX: &str = "wasmount-vm-";

/// Options of `cargo xtask vm`.
#[derive(Debug, clap::Args)]
pub struct VmOptions {
    /// The VM's memory, in MiB
    #[arg(long, value_name = "MIB", default_value = "1536")]
    memory: u32,
    /// A directory of this machine that the VM may read, at the same path; it always has the checkout and the target directory
    #[arg(long, value_name = "DIRECTORY")]
    share: Vec<PathBuf>,
    /// A directory of this machine that the VM may also write to
    #[arg(long, value_name = "DIRECTORY")]
    share_writable: Vec<PathBuf>,
    /// Turns on SELinux, with Debian's policy, which permits everything and reports what it would not
    #[arg(long)]
    selinux: bool,
    /// Runs the command in two VMs, 10.0.0.1 and 10.0.0.2, with a network between them; `WASMOUNT_VM` is 1 or 2 there
    #[arg(long)]
    two: bool,
    /// Runs the command again in a second VM with the disk of the first one, which is killed when the command makes the file `/media/power-cut`; `WASMOUNT_VM_BOOT` is 1 or 2 there
    #[arg(long, conflicts_with = "two")]
    power_cut: bool,
    /// What to run, with its arguments, in the working directory; one word is a line for the shell
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the command; returns its exit code.
pub fn run(workspace: &Workspace, options: &VmOptions) -> Result<u8, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::missing(
            "root",
            "the VM's system has files of many users; run `cargo xtask vm` as root",
        ));
    }
    packages::install(packages::VM)?;
    let system = build(workspace)?;
    let own = workspace.directories().map(|it| (it.to_owned(), false));
    let more = options.share.iter().map(|it| (it.clone(), false));
    let writable = options.share_writable.iter().map(|it| (it.clone(), true));
    let shares = own.into_iter().chain(more).chain(writable);
    let shares = shares.map(|(directory, writable)| share(&directory, writable));
    place::sweep(PREFIX);
    let machine = Machine {
        system,
        memory: options.memory,
        selinux: options.selinux,
        shares: shares.collect::<Result<Vec<_>, _>>()?.concat(),
    };
    // One thread: the kernel ends the VM when the thread that started it ends.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::cannot("start the async runtime"))?;
    runtime.block_on(async {
        let command = &options.command;
        match (options.two, options.power_cut) {
            (true, _) => machine.run_two(command).await,
            (false, true) => machine.run_through_power_cut(command).await,
            (false, false) => machine.run(command, None).await,
        }
    })
}
