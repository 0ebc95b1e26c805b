//! The host as a process: started with its real command line, watched until its sockets are there, ended or killed.
//!
//! It runs in a process group of its own, so that Ctrl-C reaches only us and we tear down in order; and it is told to end when the thread
//! that started it ends (`setpriv --pdeathsig`), so that a killed test or demo leaves no driver behind.

use crate::command;
use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Until a first start must have its sockets. It compiles the plugin, which takes seconds when the machine is busy with tests.
const START: Duration = Duration::from_secs(60);

/// Until it must have ended after SIGTERM: above its own grace period.
const END: Duration = Duration::from_secs(30);

/// Between two looks at a process or a socket.
const LOOK: Duration = Duration::from_millis(10);

/// Lines of the log that an error shows.
const TAIL: usize = 20;

/// The command line of `wasmount serve`.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The program.
    pub program: PathBuf,
    /// A program that runs it, with arguments, such as `strace`; empty for none.
    pub wrapper: Vec<OsString>,
    /// `--backend`, each.
    pub backends: Vec<PathBuf>,
    /// `--data-dir`.
    pub data: PathBuf,
    /// `--run-dir`.
    pub run: PathBuf,
    /// `--socket-dir`.
    pub sockets: PathBuf,
    /// `--kubelet-dir`.
    pub kubelet: PathBuf,
    /// `--node-id`.
    pub node_id: String,
    /// `--role`.
    pub role: String,
    /// `--listen-health`; `off` where several hosts run.
    pub health: String,
    /// Anything else.
    pub more: Vec<OsString>,
    /// Takes its standard output and error; appended to.
    pub log: PathBuf,
}

/// A host that was started.
#[derive(Debug)]
pub struct Served {
    child: Child,
    log: PathBuf,
    sockets: PathBuf,
    drivers: usize,
}

impl ServeOptions {
    fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "--"])
            .args(&self.wrapper)
            .arg(&self.program)
            .arg("serve");
        for backend in &self.backends {
            command.arg("--backend").arg(backend);
        }
        for (option, directory) in [
            ("--data-dir", &self.data),
            ("--run-dir", &self.run),
            ("--socket-dir", &self.sockets),
            ("--kubelet-dir", &self.kubelet),
        ] {
            command.arg(option).arg(directory);
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
            return Err(Failure::Missing {
                what: format!("the host's program {}", options.program.display()),
                next: "`cargo build --workspace --bins`".to_owned(),
            });
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(&options.log)
            .and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = log.map_err(Failure::io(format!("open {}", options.log.display())))?;
        let mut command = options.command();
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(|source| command::start_failure(&command, source))?;
        Ok(Self {
            child,
            log: options.log.clone(),
            sockets: options.sockets.clone(),
            drivers: options.backends.len(),
        })
    }

    /// Waits until every driver's socket takes connections; gives them in the order of the drivers' names.
    pub fn sockets(&mut self) -> Result<Vec<PathBuf>, Failure> {
        let start = Instant::now();
        loop {
            let answering: Vec<_> = csi_sockets(&self.sockets)
                .into_iter()
                .filter(|socket| UnixStream::connect(socket).is_ok())
                .collect();
            if answering.len() == self.drivers {
                return Ok(answering);
            }
            if let Some(status) = self.ended()? {
                return Err(self.failed(format!("ended at start ({status})")));
            }
            if start.elapsed() > START {
                return Err(self.failed(format!("has no socket after {} s", START.as_secs())));
            }
            thread::sleep(LOOK);
        }
    }

    /// Its process id (or its wrapper's).
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child
            .try_wait()
            .map_err(Failure::io("look at the driver's process"))
    }

    /// SIGTERM, as the kubelet ends a container, and wait.
    pub fn terminate(&mut self) -> Result<ExitStatus, Failure> {
        let start = Instant::now();
        if self.ended()?.is_none() {
            // It may end at this very moment: the wait tells.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if start.elapsed() > END {
                self.kill_9()?;
                return Err(self.failed(format!(
                    "did not end within {} s of SIGTERM and was killed",
                    END.as_secs()
                )));
            }
            thread::sleep(LOOK);
        }
    }

    /// SIGKILL to it and all that it started.
    pub fn kill_9(&mut self) -> Result<ExitStatus, Failure> {
        if self.ended()?.is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        self.child
            .wait()
            .map_err(Failure::io("wait for the driver's end"))
    }

    fn failed(&self, how: String) -> Failure {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let tail = lines.iter().skip(lines.len().saturating_sub(TAIL));
        Failure::Driver {
            how,
            tail: tail.copied().collect::<Vec<_>>().join("\n"),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.kill_9();
    }
}

/// `<directory>/<driver>/csi.sock`, each.
fn csi_sockets(directory: &Path) -> Vec<PathBuf> {
    let mut sockets: Vec<_> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("csi.sock")))
        .filter(|socket| socket.exists())
        .collect();
    sockets.sort_unstable();
    sockets
}
