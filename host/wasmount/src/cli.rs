//! The command line.
//!
//! A flag that configures a host or a command is also an environment variable (`WASMOUNT_` and its name), for manifests and for one shell. A
//! name means the same in all subcommands that have it. Flags that concern a single call exist on the command line only: a variable that was set for
//! another command must not change or block this one.

mod admin;
mod bench;
mod call;
mod check;
mod cluster_values;
mod common;
mod completions;
mod inspect;
mod keys;
mod load;
mod man;
mod manifests;
mod mounter;
mod pull;
mod push;
mod registry;
mod save;
mod serve;
mod show;
mod sign;
mod subject;
mod transfer;
mod verify;

use crate::fault::Fault;
use crate::host::{FetchWork, compile_as_child, fetch_as_child};
use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use wasmount_core::document::without_credentials;
use wasmount_engine::Target;

/// The text of `--version`: a bug report needs all three.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (wasmtime 48, contract wasmount:csi@0.1.0)"
);

/// Serves storage backends written as WebAssembly components as complete CSI drivers.
#[derive(Debug, Parser)]
#[command(name = "wasmount", version = VERSION, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Each subcommand's --help ends with an example.")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Flags>),
    Mounter(Box<mounter::Flags>),
    Manifests(Box<manifests::Flags>),
    Status(admin::status::Flags),
    Swap(admin::change::SwapFlags),
    Rollback(admin::change::RollbackFlags),
    Pause(admin::change::PauseFlags),
    Resume(admin::change::ResumeFlags),
    Rollout(admin::rollout::Flags),
    Drain(admin::change::DrainFlags),
    History(admin::history::Flags),
    Volumes(admin::volumes::Flags),
    Delete(admin::change::DeleteFlags),
    LogLevel(admin::log_level::Flags),
    Push(push::Flags),
    Pull(pull::Flags),
    Save(save::Flags),
    Load(load::Flags),
    Sign(sign::Flags),
    Verify(verify::Flags),
    Inspect(inspect::Flags),
    Check(check::Flags),
    Call(call::Flags),
    Bench(Box<bench::Flags>),
    Completions(completions::Flags),
    Man(man::Flags),
    /// Compile a component from standard input; started by the host
    #[command(hide = true)]
    CompileChild {
        /// For which engine
        #[arg(value_parser = target)]
        target: Target,
    },
    /// Fetch artifacts on request from standard input; started by the host
    #[command(hide = true)]
    FetchChild {
        /// From where
        work: FetchWork,
    },
}

fn target(name: &str) -> Result<Target, String> {
    Target::parse(name).ok_or_else(|| format!("must be one of {}", Target::names()))
}

/// Parses the command line.
pub(crate) fn parse() -> Result<CommandLine, Fault> {
    let mut command = with_switches(command());
    let matches = command.try_get_matches_from_mut(env::args_os());
    let matches = matches.map_err(repeating_no_credentials)?;
    let command_line = CommandLine::from_arg_matches(&matches);
    Ok(command_line.map_err(|error| error.format(&mut command))?)
}

/// The library repeats a value that it rejects; a user may have written a password into the name of an artifact.
fn repeating_no_credentials(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && let Cow::Owned(shown) = without_credentials(value)
    {
        error.insert(ContextKind::InvalidValue, ContextValue::String(shown));
    }
    error
}

/// All subcommands with their flags and variables.
fn command() -> clap::Command {
    with_variables(CommandLine::command())
}

/// The derived variable of a flag is its name alone.
fn with_variables(command: clap::Command) -> clap::Command {
    let prefixed = |argument: clap::Arg| {
        let name = argument.get_env().map(OsStr::to_string_lossy);
        match name.map(|name| format!("WASMOUNT_{name}")) {
            Some(variable) => argument.env(variable),
            None => argument,
        }
    };
    command.mut_args(prefixed).mut_subcommands(with_variables)
}

/// A switch in the environment may also be `1`, `yes` or `on`: manifests use all of them.
fn with_switches(command: clap::Command) -> clap::Command {
    let switch = |argument: clap::Arg| match argument.get_action() {
        ArgAction::SetTrue => argument.value_parser(BoolishValueParser::new()),
        _ => argument,
    };
    command.mut_args(switch).mut_subcommands(with_switches)
}

/// Runs the command.
pub(crate) fn run(command_line: CommandLine) -> Result<(), Fault> {
    match command_line.command {
        Command::Serve(flags) => serve::run(*flags),
        Command::Mounter(flags) => mounter::run(*flags),
        Command::Manifests(flags) => manifests::run(*flags),
        Command::Status(flags) => admin::status::run(flags),
        Command::Swap(flags) => admin::change::swap(flags),
        Command::Rollback(flags) => admin::change::roll_back(flags),
        Command::Pause(flags) => admin::change::pause(flags),
        Command::Resume(flags) => admin::change::resume(flags),
        Command::Rollout(flags) => admin::rollout::run(flags),
        Command::Drain(flags) => admin::change::drain(flags),
        Command::History(flags) => admin::history::run(flags),
        Command::Volumes(flags) => admin::volumes::run(flags),
        Command::Delete(flags) => admin::change::delete(flags),
        Command::LogLevel(flags) => admin::log_level::run(flags),
        Command::Push(flags) => push::run(flags),
        Command::Pull(flags) => pull::run(flags),
        Command::Save(flags) => save::run(flags),
        Command::Load(flags) => load::run(flags),
        Command::Sign(flags) => sign::run(flags),
        Command::Verify(flags) => verify::run(flags),
        Command::Inspect(flags) => inspect::run(flags),
        Command::Check(flags) => check::run(flags),
        Command::Call(flags) => call::run(flags),
        Command::Bench(flags) => bench::run(*flags),
        Command::Completions(flags) => completions::run(&flags),
        Command::Man(flags) => man::run(&flags),
        Command::CompileChild { target } => compile_as_child(target),
        Command::FetchChild { work } => fetch_as_child(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Flags of a single call: output files, forced operations, the choice of one of many.
    const OF_ONE_CALL: [(&str, &str); 51] = [
        ("manifests", "crd"),
        ("manifests", "shared"),
        ("manifests", "as-object"),
        ("manifests", "node-set"),
        ("manifests", "in-node-set"),
        // The flag of `serve` has another form.
        ("manifests", "storage-backends"),
        ("status", "watch"),
        ("status", "cluster"),
        ("swap", "file"),
        ("swap", "reference"),
        ("swap", "allow-service-change"),
        ("swap", "share"),
        ("swap", "promote-after"),
        ("rollback", "to"),
        ("rollback", "from"),
        ("drain", "reason"),
        ("delete", "force"),
        ("pull", "output"),
        ("call", "node-fact"),
        ("call", "http-record"),
        ("call", "http-replay"),
        ("save", "output"),
        ("load", "output"),
        ("load", "to"),
        ("sign", "add"),
        ("verify", "all"),
        ("inspect", "wit"),
        ("inspect", "secret"),
        ("check", "secret"),
        ("call", "secret"),
        ("call", "state"),
        ("call", "pools"),
        ("call", "touch-pools"),
        ("man", "output"),
        ("bench", "compare"),
        ("bench", "mix"),
        ("bench", "total"),
        ("bench", "duration"),
        ("bench", "concurrency"),
        ("bench", "warm-up"),
        ("bench", "existing"),
        ("bench", "published"),
        ("bench", "rounds"),
        ("bench", "connections"),
        ("bench", "timeout"),
        ("bench", "parameter"),
        ("bench", "secret"),
        ("bench", "disk"),
        ("bench", "pid"),
        ("bench", "count-syncs"),
        ("bench", "html"),
    ];

    /// All subcommands except for those that only the host starts.
    fn for_people(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
        command.get_subcommands().filter(|it| !it.is_hide_set())
    }

    fn parsed<T: Into<std::ffi::OsString> + Clone>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<CommandLine, clap::Error> {
        let matches = command().try_get_matches_from(arguments)?;
        CommandLine::from_arg_matches(&matches)
    }

    /// Subcommand, flag and variable of every flag that has a variable.
    fn flags(
        command: &clap::Command,
    ) -> impl Iterator<Item = (&clap::Command, &clap::Arg, String)> {
        for_people(command).flat_map(|command| {
            let flags = command.get_arguments();
            let named = flags.filter(|flag| flag.get_id() != "help" && !flag.is_positional());
            named.map(move |flag| {
                let variable = flag.get_env().and_then(OsStr::to_str);
                (command, flag, variable.unwrap_or_default().to_owned())
            })
        })
    }

    #[test]
    fn every_flag_is_declared_without_contradiction() {
        command().debug_assert();
    }

    #[test]
    fn the_version_is_what_the_workspace_was_built_with() {
        let lock = include_str!("../../../Cargo.lock");
        let wit = include_str!("../../../wit/wasmount.wit");
        assert!(
            VERSION.contains("wasmtime 48,") && VERSION.contains("contract wasmount:csi@0.1.0")
        );
        assert!(lock.contains("name = \"wasmtime\"\nversion = \"48."));
        assert!(wit.contains("package wasmount:csi@0.1.0;"));
    }

    #[test]
    fn every_subcommand_has_an_example_that_it_takes_itself() {
        for command in for_people(&command()) {
            let name = command.get_name();
            let help = command.get_after_help().unwrap_or_default().to_string();
            let lines = help.replace("\\\n", " ");
            let examples: Vec<_> = lines
                .lines()
                .filter_map(|line| line.trim().strip_prefix("$ "))
                .filter(|line| line.starts_with("wasmount "))
                .collect();
            assert!(!examples.is_empty(), "{name} has no example");
            for example in examples {
                let arguments = example.split_whitespace();
                parsed(arguments).unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }

    #[test]
    fn examples_are_whole_lines_in_a_terminal_of_80_columns() {
        for command in command().term_width(80).get_subcommands_mut() {
            let help = command.get_after_help().unwrap_or_default().to_string();
            let rendered = command.clone().term_width(80).render_help().to_string();
            let mut continues = false;
            for line in help.lines() {
                let is_example = continues || line.trim_start().starts_with("$ ");
                continues = is_example && line.ends_with('\\');
                let is_whole = rendered.lines().any(|it| it == line);
                assert!(!is_example || is_whole, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn a_host_without_any_document_is_told_of_both_sources() {
        let serve = |more: &[&str]| {
            let arguments = ["wasmount", "serve"].iter().chain(more);
            parsed(arguments).map_err(|error| error.to_string())
        };
        let error = serve(&[]).unwrap_err();
        assert!(error.contains("--backend <FILE>"), "{error}");
        assert!(error.contains("--storage-backends"), "{error}");
        assert!(serve(&["--backend", "a.yaml"]).is_ok());
        assert!(serve(&["--storage-backends"]).is_ok());
        assert!(serve(&["--storage-backends", "--backend", "a.yaml"]).is_ok());
    }

    #[test]
    fn flags_can_be_set_by_environment_except_per_call_ones() {
        for (command, flag, variable) in flags(&command()) {
            let name = flag.get_long().unwrap_or_default();
            let expected = match (command.get_name(), name) {
                of if OF_ONE_CALL.contains(&of) => String::new(),
                // The key of `sign` is private, that of `verify` public.
                ("sign", "key") => "WASMOUNT_SIGNING_KEY".to_owned(),
                ("verify", "key") => "WASMOUNT_VERIFY_KEY".to_owned(),
                (_, name) => format!("WASMOUNT_{}", name.to_uppercase().replace('-', "_")),
            };
            assert_eq!(variable, expected, "{} --{name}", command.get_name());
        }
    }

    #[test]
    fn a_variable_means_the_same_to_every_subcommand() {
        let command = command();
        let mut meanings = BTreeMap::new();
        for (command, flag, variable) in flags(&command) {
            let names = flag.get_value_names().map(<[_]>::to_vec);
            let meaning = (flag.get_value_parser().type_id(), names);
            let first = meanings
                .entry(variable.clone())
                .or_insert_with(|| meaning.clone());
            let is_one = variable.is_empty() || *first == meaning;
            assert!(is_one, "{variable} in {}", command.get_name());
        }
    }

    #[test]
    fn no_variable_is_in_the_way_of_a_flag() {
        for (command, flag, variable) in flags(&command()) {
            // The variables and flags of a service are documented in one place.
            if command.get_name() == "serve" {
                continue;
            }
            let others = command.get_arg_conflicts_with(flag);
            assert!(variable.is_empty() || others.is_empty(), "{variable}");
            for other in others {
                let name = command.get_name();
                assert!(other.get_env().is_none(), "{name} --{}", other.get_id());
            }
        }
    }
}
