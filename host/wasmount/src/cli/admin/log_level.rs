//! `wasmount log-level`: what a running host logs.

use super::{FormFlags, HostFlags};
use crate::cli::show;
use crate::cli::transfer::wait;
use crate::fault::Fault;
use crate::telemetry::LogLevels;
use clap::Args;
use wasmount_control::messages::LogLevel;

/// Show or change the log level of a running host
#[derive(Debug, Args)]
#[command(after_help = "\
Example, to look closer at mounts for a while:
  $ wasmount log-level info,wasmount_mount=debug
  $ wasmount log-level info

A change lasts until the host restarts with its own --log.
Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// The new level, in the form of `wasmount serve --log` [default: only show the current one]
    #[arg(value_name = "LEVEL", value_parser = level)]
    level: Option<String>,

    #[command(flatten)]
    host: HostFlags,

    #[command(flatten)]
    form: FormFlags,
}

fn level(text: &str) -> Result<String, String> {
    text.parse::<LogLevels>().map(|_| text.to_owned())
}

/// Shows or changes it.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags { level, host, form } = flags;
    let client = host.client();
    let answer = match level {
        Some(level) => wait(client.set_log_level(&LogLevel { level })),
        None => wait(client.log_level()),
    }??;
    show::answer(form.json, &answer, |it| format!("{}\n", it.level))
}
