//! `wasmount mounter` beside a host: its real command line, its socket, and its process.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::failure::Failure;
use xtask::process::Process;

/// Time limit for its socket: it compiles nothing, but the machine is busy with tests.
const START: Duration = Duration::from_secs(30);

/// The command line of `wasmount mounter`.
#[derive(Debug, Clone)]
pub struct MounterOptions {
    /// The program.
    pub program: PathBuf,
    /// The `--backend` options.
    pub backends: Vec<PathBuf>,
    /// `--data-dir`.
    pub data: PathBuf,
    /// `--run-dir`.
    pub run: PathBuf,
    /// `--kubelet-dir`.
    pub kubelet: PathBuf,
    /// `--socket`.
    pub socket: PathBuf,
    /// `--client-uid`.
    pub client_uid: u32,
    /// Other arguments.
    pub more: Vec<OsString>,
    /// The file to which its standard output and error are appended.
    pub log: PathBuf,
}

/// A running mounter.
#[derive(Debug)]
pub struct Mounting {
    /// Its process.
    pub process: Process,
    /// Its command line; changes apply from the next start on.
    pub options: MounterOptions,
}

impl MounterOptions {
    /// The command line as it is run.
    pub fn command(&self) -> Command {
        let mut command = Process::command();
        command.arg(&self.program).arg("mounter");
        for backend in &self.backends {
            command.arg("--backend").arg(backend);
        }
        for (option, path) in [
            ("--data-dir", &self.data),
            ("--run-dir", &self.run),
            ("--kubelet-dir", &self.kubelet),
            ("--socket", &self.socket),
        ] {
            command.arg(option).arg(path);
        }
        command
            .args(["--client-uid", &self.client_uid.to_string()])
            .args(&self.more);
        command
    }
}

impl Mounting {
    /// Starts it and waits for its socket. Call it on a thread that outlives it.
    pub fn start(options: MounterOptions) -> Result<Self, Failure> {
        let mut mounting = Self {
            process: Process::start(options.command(), &options.log)?,
            options,
        };
        mounting.wait()?;
        Ok(mounting)
    }

    /// The documents of this directory, and no others, from the next start on.
    pub fn serve_directory(&mut self, directory: &Path) {
        self.options.backends = Vec::new();
        let more = ["--backend-dir".into(), directory.into()];
        self.options.more.extend::<[OsString; 2]>(more);
    }

    /// Starts it again; kills it first if it runs.
    pub fn restart(&mut self) -> Result<(), Failure> {
        self.process.kill_9()?;
        self.process = Process::start(self.options.command(), &self.options.log)?;
        self.wait()
    }

    /// Waits until it listens: the socket that a killed one left refuses connections.
    fn wait(&mut self) -> Result<(), Failure> {
        let socket = &self.options.socket;
        let look = || UnixStream::connect(socket).ok().map(drop);
        self.process.until_listening(START, look)
    }
}
