//! `wasmount delete`: a driver that the host serves no more.

use super::{DriverFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;
use wasmount_control::words::Delete;

/// Remove a driver from a running host: drain it, unregister it, remove its socket
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount delete directory.wasmount.io

It is refused, naming them, while volumes are in use on the node; with --force those stay mounted, and nobody is left to take them down until a
host serves the driver again. A document that a --backend still names is served again after a restart. No volume and no record is removed.

Exit codes: 0, 64 for wrong flags, 1 for a refusal and any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,

    /// Delete even if volumes are in use
    #[arg(long)]
    force: bool,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        of: DriverFlags { driver, host, form },
        force,
    } = flags;
    let client = host.client();
    print_done(&ask(client.delete(&driver, &Delete { force }))?, form)
}
