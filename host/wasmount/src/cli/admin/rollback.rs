//! `wasmount rollback`: an earlier version, from this node's disk.

use super::{DriverFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;
use wasmount_control::words::Rollback;

/// Roll a driver back to an earlier version, with its settings and grants, and hold it there
#[derive(Debug, Args)]
#[command(after_help = "\
Example, to the version before:
  $ wasmount rollback directory.wasmount.io

Example, to one that `wasmount history` shows:
  $ wasmount rollback directory.wasmount.io --to 3

Example, only if version 5 still serves (two administrators who go back at once go back two versions):
  $ wasmount rollback directory.wasmount.io --from 5

It needs no registry and no document: the last versions are kept in the data directory. It stays, also after a restart and whatever the
document says, until `wasmount swap` lifts it.

Exit codes: 0, 64 for wrong flags, 1 for any other failure, such as no version to go back to.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,

    /// Version number [default: the last proven version before the current one]
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,

    /// Version number to leave: rejected if another version serves by now, after another rollback
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        of: DriverFlags { driver, host, form },
        to,
        from,
    } = flags;
    let client = host.client();
    print_done(
        &ask(client.rollback(&driver, &Rollback { to, from }))?,
        form,
    )
}
