//! `wasmount fetch-child`: what `serve` starts to fetch a plugin, or to check who signed one. Apart from the commands of people: it has no flags,
//! reads a request from standard input and writes an answer, which nobody but the process that started it takes.

use crate::fault::Fault;
use crate::host::{FetchWork, fetch_as_child};
use clap::Args;

/// Fetch what standard input asks for; the host starts this by itself
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Flags {
    /// From where
    work: FetchWork,
}

/// Does not return.
pub(crate) fn run(flags: &Flags) -> Result<(), Fault> {
    fetch_as_child(flags.work)
}
