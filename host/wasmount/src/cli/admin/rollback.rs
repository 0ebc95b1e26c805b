//! `wasmount rollback`: an earlier version, from this node's disk.

use super::{DriverFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;
use wasmount_control::words::Rollback;

/// Go back to an earlier version of a driver, with its settings and grants, and stay there
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

    /// Number of a version [default: the last one before that served well]
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,

    /// Number of the version to leave: refused if another one serves by now, since somebody else, or the host by itself, went back already
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
