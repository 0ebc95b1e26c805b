//! `wasmount pause`: nothing changes by itself any more.

use super::{DriverFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;

/// Keep the serving version of a driver until `resume`, whatever its document says
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount pause directory.wasmount.io

A swap or a rollback by hand still works. Automatic rollback on faults goes on.
Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let DriverFlags { driver, host, form } = flags.of;
    print_done(&ask(host.client().pause(&driver))?, form)
}
