//! The program of `cargo xtask array`, as a process.

use crate::client::{Api, until};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use xtask::process::Process;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_block-array");

/// What precedes its address in the first line.
const ADDRESS: &str = "array at http://";

/// A running one; it is killed on drop.
pub(crate) struct Program {
    process: Process,
    address: SocketAddr,
}

impl Program {
    /// Starts it over a directory, with further arguments.
    pub(crate) async fn start(directory: &Path, more: &[&str]) -> Self {
        let log = log(directory);
        let _ = fs::remove_file(&log);
        let mut command = Process::command();
        command.arg(PROGRAM).args(["--listen", "127.0.0.1:0"]);
        command.arg("--directory").arg(directory).args(more);
        let mut process = Process::start(command, &log).unwrap();
        let mut address = None;
        until("the array serves", async || {
            let text = fs::read_to_string(&log).unwrap();
            assert!(process.ended().unwrap().is_none(), "{text}");
            address = address_in(&text);
            address.is_some()
        })
        .await;
        Self {
            process,
            address: address.unwrap(),
        }
    }

    pub(crate) async fn log_in(&self) -> Api {
        Api::log_in(self.address).await
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn stop(mut self) {
        assert!(self.process.terminate().unwrap().success());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.process.kill_9().unwrap();
    }
}

/// Its output.
pub(crate) fn log(directory: &Path) -> PathBuf {
    directory.with_extension("log")
}

fn address_in(text: &str) -> Option<SocketAddr> {
    let (_, rest) = text.split_once(ADDRESS)?;
    rest.split_once(',')?.0.parse().ok()
}
