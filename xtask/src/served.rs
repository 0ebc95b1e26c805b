//! `wasmount serve` as a process: started with its real command line, and watched until its sockets exist.

use crate::failure::Failure;
use crate::files;
use crate::process::Process;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, getpgid};
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Timeout of the sockets after a first start. It compiles the plugin, which takes seconds when the machine is busy with tests.
const START: Duration = Duration::from_secs(60);

/// The command line of `wasmount serve`.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The program.
    pub program: PathBuf,
    /// A program that runs it, with arguments, such as `strace`; empty for none.
    pub wrapper: Vec<OsString>,
    /// Each `--backend`.
    pub backends: Vec<PathBuf>,
    /// `--data-dir`.
    pub data: PathBuf,
    /// `--run-dir`; empty if another process mounts.
    pub run: PathBuf,
    /// `--socket-dir`.
    pub sockets: PathBuf,
    /// `--kubelet-dir`.
    pub kubelet: PathBuf,
    /// `--node-id`.
    pub node_id: String,
    /// `--role`.
    pub role: String,
    /// `--listen-health`; `off` if several hosts run.
    pub health: String,
    /// Other arguments.
    pub more: Vec<OsString>,
    /// The file to which its standard output and error are appended.
    pub log: PathBuf,
}

/// A host that was started.
#[derive(Debug)]
pub struct Served {
    /// Its process, or its wrapper's.
    pub process: Process,
    sockets: PathBuf,
    drivers: usize,
}

impl ServeOptions {
    fn command(&self) -> Command {
        let mut command = Process::command();
        command.args(&self.wrapper).arg(&self.program).arg("serve");
        for backend in &self.backends {
            command.arg("--backend").arg(backend);
        }
        for (option, directory) in [
            ("--data-dir", &self.data),
            ("--run-dir", &self.run),
            ("--socket-dir", &self.sockets),
            ("--kubelet-dir", &self.kubelet),
        ] {
            if !directory.as_os_str().is_empty() {
                command.arg(option).arg(directory);
            }
        }
        command
            .args(["--node-id", &self.node_id, "--role", &self.role])
            .args(["--listen-health", &self.health])
            .args(&self.more);
        command
    }
}

impl Served {
    /// Starts it; [`Served::sockets`] waits for it. Call it on a thread that outlives the driver.
    pub fn start(options: &ServeOptions) -> Result<Self, Failure> {
        if !options.program.is_file() {
            return Err(Failure::missing(
                format!("the host's program {}", options.program.display()),
                "`cargo build --workspace --bins`",
            ));
        }
        Ok(Self {
            process: Process::start(options.command(), &options.log)?,
            sockets: options.sockets.clone(),
            drivers: options.backends.len(),
        })
    }

    /// Waits until every driver's socket accepts connections; returns them in the order of the drivers' names.
    pub fn sockets(&mut self) -> Result<Vec<PathBuf>, Failure> {
        let (id, directory, drivers) = (self.process.id(), &self.sockets, self.drivers);
        self.process.until_listening(START, || {
            let mut answering = csi_sockets(directory);
            answering.retain(|socket| listens_at(id, socket));
            // Objects of an API server can add drivers.
            (answering.len() >= drivers).then_some(answering)
        })
    }
}

/// Whether this host accepts the connections there. A tool that a killed host was about to start holds the old socket open until it runs.
fn listens_at(host: u32, socket: &Path) -> bool {
    let listener = UnixStream::connect(socket).ok().and_then(|connection| {
        let peer = socket_peercred(&connection).ok()?;
        getpgid(Some(peer.pid)).ok()
    });
    listener.is_some_and(|group| Pid::as_raw(Some(group)).cast_unsigned() == host)
}

/// Each `<directory>/<driver>/csi.sock`.
fn csi_sockets(directory: &Path) -> Vec<PathBuf> {
    let drivers = files::entries(directory).unwrap_or_default();
    let sockets = drivers.into_iter().map(|driver| driver.join("csi.sock"));
    sockets.filter(|socket| socket.exists()).collect()
}
