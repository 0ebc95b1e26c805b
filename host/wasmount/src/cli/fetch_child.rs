//! `wasmount fetch-child`: what `serve` starts to fetch a plugin, or to check who signed one. It has no flags, reads a request from standard input
//! and writes an answer, which nobody but the process that started it takes.

use crate::fault::Fault;
use crate::host::{FetchWork, fetch_as_child};
use clap::Args;

/// Fetch artifacts on request from standard input; started by the host
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
