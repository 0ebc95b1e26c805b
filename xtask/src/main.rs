//! `cargo xtask`: the command line of the project's own commands. Each does all of its set-up, so that a fresh clone needs no preparation.
//!
//! It only parses and reports: the commands are implemented in the library.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::cluster::{commands, inside};
use xtask::demo::{self, DemoOptions};
use xtask::failure::Failure;
use xtask::image::{self, ImageOptions};
use xtask::plugins::{self, Languages};
use xtask::release::{self, ReleaseOptions};
use xtask::say;
use xtask::test::{self, TestOptions};
use xtask::vm::{self, VmOptions};
use xtask::workspace::Workspace;
use xtask::{array, deny, deploy, python, tools};

/// The project's commands; each does all of its own set-up.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Builds the plugins into plugins/target
    Plugins {
        /// Those in this language
        #[arg(long = "lang", default_value = "rust")]
        languages: Languages,
    },
    /// Serves plugins/directory and plays the container orchestrator against it
    Demo(DemoOptions),
    /// Passes every test of the project; the last line holds the totals
    Test(TestOptions),
    /// Golden guests: components that every later host must run
    Golden {
        #[command(subcommand)]
        command: Golden,
    },
    /// Builds the pinned tools that tests drive (such as csi-sanity) and prints their paths
    Tools,
    /// Prints the manifests of deploy/ again
    Deploy,
    /// Writes docs/contract.md, the reference of the contract, again
    Contract,
    /// Writes the package of the contract as registries hold it
    WitPackage {
        /// Where to
        #[arg(long, default_value = "target/wasmount-csi.wasm")]
        output: PathBuf,
    },
    /// Builds the container image of Wasmount into a file, without a daemon
    Image(ImageOptions),
    /// Writes the files of a release: program, image, charts, manifests, contract, completions, manual pages, digests
    Release(ReleaseOptions),
    /// A whole Kubernetes on this machine, in namespaces of its own
    Cluster {
        #[command(subcommand)]
        command: Cluster,
    },
    /// A storage array to try drivers against; `cargo xtask array --help` lists its options
    #[command(disable_help_flag = true)]
    Array {
        /// For the array
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs a command as root on another kernel: `cargo xtask vm -- uname -r`
    Vm(VmOptions),
    /// Runs cargo-deny with deny.toml; builds cargo-deny first if need be (minutes)
    Deny,
}

#[derive(Debug, Subcommand)]
enum Golden {
    /// Builds them for the contract as it is; of a frozen line only those that it does not have
    Record,
    /// Freezes the interfaces of the recorded contract: after that none of them changes
    Freeze,
}

#[derive(Debug, Subcommand)]
enum Cluster {
    /// Starts it, with backends in it as pods, and says what to type next
    Up,
    /// Ends it and removes what it left, also after a crash
    Down,
    /// Runs kubectl on it: `cargo xtask cluster kubectl -- get pods`
    Kubectl {
        /// For kubectl
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// What runs first in the namespaces of a cluster
    #[command(hide = true)]
    Inside {
        /// As the second process
        #[arg(long)]
        supervise: bool,
        /// The cluster's directory
        lab: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            say::failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Returns a code other than success if the command failed and has reported that itself.
fn run(command: Command) -> Result<ExitCode, Failure> {
    let workspace = Workspace::locate()?;
    match command {
        Command::Plugins { languages } => {
            plugins::build_languages(&workspace, languages)?;
        }
        Command::Golden { command } => match command {
            Golden::Record => plugins::record_golden(&workspace)?,
            Golden::Freeze => plugins::guests(&workspace, &["freeze"])?,
        },
        Command::Contract => plugins::guests(&workspace, &["contract"])?,
        Command::WitPackage { output } => plugins::write_package(&workspace, &output)?,
        Command::Demo(options) => demo::run(&workspace, &options)?,
        Command::Test(options) if test::run(&workspace, &options) => {}
        Command::Test(_) => return Ok(ExitCode::FAILURE),
        Command::Array { arguments } => array::run(&workspace, &arguments)?,
        Command::Vm(options) => return vm::run(&workspace, &options).map(ExitCode::from),
        Command::Tools => {
            for tool in tools::ALL.into_iter().chain(tools::CLUSTER) {
                say::line(&tool.build(&workspace)?.display().to_string());
            }
            let c_core = python::c_core(&workspace)?;
            say::line(&c_core.packages.display().to_string());
            let openstack = python::openstack(&workspace)?;
            say::line(&openstack.packages.display().to_string());
        }
        Command::Deploy => {
            plugins::build_languages(&workspace, Languages::Rust)?;
            plugins::build_host(&workspace)?;
            deploy::write(&workspace)?;
        }
        Command::Image(options) => image::run(&workspace, &options)?,
        Command::Release(options) => release::run(&workspace, &options)?,
        Command::Cluster { command } => cluster(command, &workspace)?,
        Command::Deny => deny::run(&workspace)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn cluster(command: Cluster, workspace: &Workspace) -> Result<(), Failure> {
    match command {
        Cluster::Up => commands::up(workspace),
        Cluster::Down => commands::down(workspace),
        Cluster::Kubectl { arguments } => commands::kubectl(workspace, &arguments),
        Cluster::Inside { supervise, lab } if supervise => inside::supervise(&lab),
        Cluster::Inside { lab, .. } => inside::first(&workspace.own_program(), &lab),
    }
}
