//! `wasmount`: one binary that serves storage backends written as WebAssembly components as CSI drivers.
//!
//! A command is parsed (`cli`), its documents are loaded (`config`), the crates are connected (`host`), and an error
//! becomes one clear line and an exit code (`fault`). This is the only crate that depends on every other crate.

#![forbid(unsafe_code)]

mod cli;
mod component_facts;
mod config;
mod fault;
mod health;
mod host;
mod http_server;
mod listen_address;
mod metrics;
mod progress_bar;
mod readiness;
mod regular_file;
mod signature_files;
mod status_page;
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
