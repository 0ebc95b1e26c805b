//! `wasmount compile-child`: what `serve` starts to compile a plugin. It has no flags, reads a component from standard input and writes machine code,
//! which nobody but the process that started it takes.

use crate::fault::Fault;
use crate::host::compile_as_child;
use clap::Args;
use wasmount_engine::Target;

/// Compile a component from standard input; started by the host
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Flags {
    /// For which engine
    target: Target,
}

/// Does not return.
pub(crate) fn run(flags: &Flags) -> Result<(), Fault> {
    compile_as_child(flags.target)
}
