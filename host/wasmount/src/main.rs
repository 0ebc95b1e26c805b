//! `wasmount`: one binary that serves storage backends written as WebAssembly components as CSI drivers.
//!
//! The story of a command: its words are read (`cli`), documents are loaded (`config`), the rooms are joined (`host`), and whatever ends it
//! becomes one clear line and an exit code (`fault`). This is the only crate that sees every room.

#![forbid(unsafe_code)]

mod cli;
mod component_facts;
mod config;
mod fault;
mod health;
mod host;
mod metrics;
mod node;
mod progress_bar;
mod readiness;
mod regular_file;
mod telemetry;
mod visible;
mod whole_file;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::parse().and_then(cli::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(),
    }
}
