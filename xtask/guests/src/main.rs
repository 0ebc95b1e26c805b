//! The program behind `cargo xtask plugins --lang`, `golden`, `contract` and `wit-package`. It only parses and reports.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::failure::Failure;
use xtask::files;
use xtask::say;
use xtask::workspace::Workspace;
use xtask_guests::language::{self, Language};
use xtask_guests::{contract, golden};

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
    /// Freezes the interfaces of the recorded contract
    Freeze,
    /// Writes the reference of the contract
    Contract,
    /// Writes the contract's package in binary form
    WitPackage {
        /// Where to
        output: PathBuf,
    },
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
        Command::Freeze => golden::freeze(&workspace)?,
        Command::Contract => {
            let page = contract::reference(&files::read_text(&workspace.contract_file())?)?;
            files::write(&contract::reference_path(&workspace), page)?;
        }
        Command::WitPackage { output } => {
            let package = contract::package(&files::read_text(&workspace.contract_file())?)?;
            files::write(&output, &package)?;
            say::line(&format!("{}: {} bytes", output.display(), package.len()));
        }
    }
    Ok(())
}
