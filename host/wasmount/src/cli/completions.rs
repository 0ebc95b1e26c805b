//! `wasmount completions`: a script by which a shell completes the commands and flags of this program.

use super::{CommandLine, VERSION};
use crate::fault::Fault;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use std::io::{self, Write};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount completions bash

Sourced, it completes in this shell; the shell loads it by itself from these files:
  bash  ~/.local/share/bash-completion/completions/wasmount
  zsh   _wasmount in a directory of $fpath
  fish  ~/.config/fish/completions/wasmount.fish")]
pub(crate) struct Flags {
    /// The shell
    #[arg(value_parser = shells())]
    shell: Shell,
}

/// Shells with scripts that are tested.
fn shells() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse())
}

/// Without the subcommands that only the host starts: the library completes hidden ones, too.
fn for_people() -> Command {
    let all = CommandLine::command();
    let shown = all.get_subcommands().filter(|it| !it.is_hide_set());
    Command::new("wasmount")
        .version(VERSION)
        .subcommands(shown.cloned())
}

/// Prints the script.
pub(crate) fn run(flags: &Flags) -> Result<(), Fault> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut for_people(), "wasmount", &mut script);
    let printed = io::stdout().write_all(&script);
    printed.map_err(Fault::failed("the script cannot be printed"))
}
