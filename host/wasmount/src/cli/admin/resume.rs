//! `wasmount resume`: the document counts again, and new work is taken.

use super::{DriverFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;

/// End a pause or a drain of a driver: follow its document and accept new work
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount resume directory.wasmount.io


Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let DriverFlags { driver, host, form } = flags.of;
    print_done(&ask(host.client().resume(&driver))?, form)
}
