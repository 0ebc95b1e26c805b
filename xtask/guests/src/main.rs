//! The program behind `cargo xtask plugins --lang` and `cargo xtask golden`. It only parses and reports.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::failure::Failure;
use xtask::say;
use xtask::workspace::Workspace;
use xtask_guests::golden;
use xtask_guests::language::{self, Language};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Builds the guests in these languages
    Build { languages: Vec<Language> },
    /// Records the golden guests of the contract's line
    Record,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::failure(&failure);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let workspace = Workspace::locate()?;
    match command {
        Command::Build { languages } => {
            for language in languages {
                let built = language::build(&workspace, language)?;
                say::line(&built.component.display().to_string());
            }
        }
        Command::Record => golden::record(&workspace)?,
    }
    Ok(())
}
