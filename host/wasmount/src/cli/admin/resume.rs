//! `wasmount resume`: the document counts again, and new work is taken.

use super::{FormFlags, HostFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;

/// End a pause or a drain of a driver: follow its document again, and take new work
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount resume directory.wasmount.io


Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// CSI's name of the driver
    #[arg(value_name = "DRIVER")]
    driver: String,

    #[command(flatten)]
    host: HostFlags,

    #[command(flatten)]
    form: FormFlags,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags { driver, host, form } = flags;
    print_done(&ask(host.client().resume(&driver))?, form)
}
