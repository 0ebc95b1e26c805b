//! The real host in a directory of its own: started, asked, killed and started again as a test wishes. What it leaves mounted at the end
//! fails the test.
//!
//! ```no_run
//! # async fn example() -> Result<(), xtask::failure::Failure> {
//! use wasmount_tests::host::{Host, HostOptions};
//! let mut host = Host::start(HostOptions::default())?;
//! let mut clients = host.client().await?;
//! host.kill_9()?;
//! host.restart()?;
//! assert!(host.mounts()?.is_empty(), "{}", host.log());
//! # Ok(())
//! # }
//! ```

use crate::orchestrator::Orchestrator;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use xtask::clients::Clients;
use xtask::failure::Failure;
use xtask::place::{self, Place};
use xtask::served::{ServeOptions, Served};
use xtask::workspace::Workspace;

/// Temporary directories of test hosts, so that a later run takes away what a killed one left.
const PREFIX: &str = "wasmount-test-";

/// What a test may choose; the rest follows from the temporary directory.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// The documents; plugins/directory as built if there is none.
    pub backends: Vec<PathBuf>,
    /// Which services.
    pub role: HostRole,
    /// A program that runs the host, with arguments, such as `strace`.
    pub wrapper: Vec<OsString>,
    /// Further arguments of `wasmount serve`.
    pub more: Vec<OsString>,
}

/// `--role`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are the command line's")]
pub enum HostRole {
    #[default]
    All,
    Controller,
    Node,
}

/// A host that was started.
#[derive(Debug)]
pub struct Host {
    /// Absent once the test took care of the end.
    place: Option<Place>,
    root: PathBuf,
    options: ServeOptions,
    served: Served,
    sockets: Vec<PathBuf>,
}

impl HostRole {
    fn word(self) -> &'static str {
        match self {
            HostRole::All => "all",
            HostRole::Controller => "controller",
            HostRole::Node => "node",
        }
    }
}

impl Host {
    /// Starts one and waits until its sockets take connections. Call it on the thread of the test: the host ends with that thread.
    pub fn start(options: HostOptions) -> Result<Self, Failure> {
        let HostOptions {
            mut backends,
            role,
            wrapper,
            more,
        } = options;
        let workspace = Workspace::locate()?;
        if backends.is_empty() {
            backends.push(workspace.backend_document("directory"));
        }
        place::sweep(PREFIX);
        let place = Place::create(PREFIX)?;
        let options = ServeOptions {
            program: workspace.host_program(),
            wrapper,
            backends,
            data: place.data(),
            run: place.run(),
            sockets: place.sockets(),
            kubelet: place.kubelet(),
            node_id: "test-node".to_owned(),
            role: role.word().to_owned(),
            // Tests run side by side, and a port is one for the machine.
            health: "off".to_owned(),
            more,
            log: place.log(),
        };
        let mut served = Served::start(&options)?;
        let sockets = served.sockets()?;
        Ok(Self {
            root: place.root().to_owned(),
            place: Some(place),
            options,
            served,
            sockets,
        })
    }

    /// Clients of the only driver (or the first in the order of names), once it says that it is ready.
    pub async fn client(&self) -> Result<Clients, Failure> {
        let mut clients = Clients::connect(self.socket()).await?;
        clients.ready().await?;
        Ok(clients)
    }

    /// An orchestrator of the only driver (or the first in the order of names), once it has its plugin.
    pub async fn orchestrator(&self) -> Result<Orchestrator, Failure> {
        Orchestrator::connect(self.socket(), &self.kubelet()).await
    }

    /// The socket of the only driver (or the first in the order of names).
    pub fn socket(&self) -> &Path {
        self.sockets.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// All sockets, in the order of the drivers' names.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// The command line; what is changed here holds from the next [`Host::restart`] on.
    pub fn options(&mut self) -> &mut ServeOptions {
        &mut self.options
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.served.id()
    }

    /// The temporary directory that holds all of it: room for what a test puts beside the host.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `--kubelet-dir`: what is mounted must be below it.
    pub fn kubelet(&self) -> PathBuf {
        self.options.kubelet.clone()
    }

    /// `--data-dir`.
    pub fn data(&self) -> PathBuf {
        self.options.data.clone()
    }

    /// `--run-dir`.
    pub fn run(&self) -> PathBuf {
        self.options.run.clone()
    }

    /// What is mounted in the host's directory, from the kernel; stacked mounts stand more than once.
    pub fn mounts(&self) -> Result<Vec<PathBuf>, Failure> {
        xtask::mountinfo::mounts_below(&self.root)
    }

    /// Everything that it and its earlier lives have logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.options.log).unwrap_or_default()
    }

    /// SIGKILL.
    pub fn kill_9(&mut self) -> Result<ExitStatus, Failure> {
        self.served.kill_9()
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(&mut self) -> Result<ExitStatus, Failure> {
        self.served.terminate()
    }

    /// Starts it again over the same directories, after [`Host::kill_9`], [`Host::terminate`] or an end of its own.
    pub fn restart(&mut self) -> Result<(), Failure> {
        self.served.kill_9()?;
        self.served = Served::start(&self.options)?;
        self.sockets = self.served.sockets()?;
        Ok(())
    }

    /// Ends it and takes all away without a word on what was mounted: for tests that leave mounts on purpose.
    pub fn abandon(mut self) -> Result<Vec<PathBuf>, Failure> {
        self.served.kill_9()?;
        self.place.take().map_or(Ok(Vec::new()), Place::take_away)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.served.kill_9();
        let log = self.log();
        let Some(place) = self.place.take() else {
            return;
        };
        let left = place.take_away();
        if thread::panicking() {
            say_log(&log);
            return;
        }
        assert!(
            matches!(&left, Ok(mounts) if mounts.is_empty()),
            "the test left mounts behind: {left:?}\n{log}"
        );
    }
}

/// What the host said belongs to what the failing test says.
#[expect(
    clippy::print_stderr,
    reason = "the test runner captures what a test prints, and shows it when the test fails"
)]
fn say_log(log: &str) {
    eprintln!("the host's log:\n{log}");
}
