//! `wasmount man`: the manual pages of this program, for packages.

use super::command;
use crate::fault::Fault;
use clap::Args;
use std::path::PathBuf;

/// Write the manual pages into a directory, one for each subcommand
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount man --output man1")]
pub(crate) struct Flags {
    /// The directory, which must exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(flags: &Flags) -> Result<(), Fault> {
    let written = clap_mangen::generate_to(command(), &flags.output);
    let failed = format!(
        "the manual pages are not written into {}",
        flags.output.display()
    );
    written.map_err(Fault::failed(failed))
}
