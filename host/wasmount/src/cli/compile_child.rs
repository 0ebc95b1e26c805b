//! `wasmount compile-child`: what `serve` starts to compile a plugin. Apart from the commands of people: it has no flags, reads a component
//! from standard input and writes machine code, which nobody but the process that started it takes.

use crate::fault::Fault;
use crate::host::compile_as_child;
use clap::Args;
use wasmount_engine::Target;

/// Compile what comes on standard input; the host starts this by itself
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
