//! The real host in its own directory: a test starts, examines, kills and restarts it. A mount that is left at the end fails the test.
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

use crate::compiled::Components;
use crate::documents;
use crate::loop_devices;
use crate::mounter::{MounterOptions, Mounting};
use crate::orchestrator::Orchestrator;
use crate::program;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use xtask::clients::Clients;
use xtask::failure::Failure;
use xtask::place::{self, Place};
use xtask::served::{ServeOptions, Served};
use xtask::workspace::Workspace;

/// The prefix of the temporary directories of test hosts, by which a later run removes the directories of a killed run.
const PREFIX: &str = "wasmount-test-";

/// The options of a test; the rest follows from its directory.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// The documents; the built plugins/directory if there is none.
    pub backends: Vec<PathBuf>,
    /// The role.
    pub role: HostRole,
    /// `--node-id`; `test-node` if there is none.
    pub node_id: Option<String>,
    /// A program that runs the host, with arguments, such as `strace`.
    pub wrapper: Vec<OsString>,
    /// Further arguments of `wasmount serve`.
    pub more: Vec<OsString>,
    /// Mount in a separate process (`wasmount mounter`), and serve as this user without any capability; a user other than root serves a copy of
    /// plugins/directory. `None`: one process, as root.
    pub split: Option<u32>,
    /// Accept volumes at any path below [`Host::paths`] too, not only at kubelet's paths: csi-sanity chooses its own.
    pub any_paths: bool,
    /// Use the mounter of another host, and its pools: the socket of that mounter.
    pub mounter: Option<PathBuf>,
    /// Its directory, which may be that of a host before a power cut; a temporary one if there is none.
    pub root: Option<PathBuf>,
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

/// A running host.
#[derive(Debug)]
pub struct Host {
    /// `None` once the test has taken over the cleanup.
    place: Option<Place>,
    root: PathBuf,
    options: ServeOptions,
    /// Those that it serves from its start.
    components: Components,
    served: Served,
    /// The separate mounter process, if there is one.
    mounting: Option<Mounting>,
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
    /// Starts a host and waits until its sockets accept connections. Call it on the thread of the test: the host is killed when that thread ends.
    pub fn start(options: HostOptions) -> Result<Self, Failure> {
        let HostOptions {
            mut backends,
            role,
            node_id,
            wrapper,
            more,
            split,
            any_paths,
            mounter,
            root,
        } = options;
        let workspace = Workspace::locate()?;
        if backends.is_empty() {
            backends.push(workspace.backend_document("directory"));
        }
        place::sweep(PREFIX);
        let place = match root {
            Some(root) => Place::at(&root)?,
            None => Place::create(PREFIX)?,
        };
        let mut options = ServeOptions {
            program: workspace.host_program(),
            wrapper,
            backends,
            data: place.data(),
            run: place.run(),
            sockets: place.sockets(),
            kubelet: place.kubelet(),
            node_id: node_id.unwrap_or_else(|| "test-node".to_owned()),
            role: role.word().to_owned(),
            // Tests run concurrently, and a port can be used once on a machine.
            health: "off".to_owned(),
            more,
            log: place.log(),
        };
        let paths: Vec<OsString> = match any_paths {
            true => [place.kubelet(), place.paths()]
                .into_iter()
                .flat_map(|root| ["--path-root".into(), root.into()])
                .collect(),
            false => Vec::new(),
        };
        let mounting = match split {
            Some(user) => Some(split_off(&place, &mut options, user, paths)?),
            None => {
                options.more.extend(paths);
                None
            }
        };
        if let Some(socket) = mounter {
            mount_at(&mut options, &socket);
        }
        // An unprivileged user could not read code that root compiled.
        let components = match split {
            None | Some(0) => Components::seed(&options.data, &options.backends)
                .map_err(Failure::cannot("share compiled plugins with the host"))?,
            Some(_) => Components::default(),
        };
        let mut served = Served::start(&options)?;
        let sockets = served.sockets()?;
        Ok(Self {
            root: place.root().to_owned(),
            place: Some(place),
            options,
            components,
            served,
            mounting,
            sockets,
        })
    }

    /// Clients of the only driver (or the first by name), once it reports that it is ready.
    pub async fn client(&self) -> Result<Clients, Failure> {
        let mut clients = Clients::connect(self.socket()).await?;
        clients.ready().await?;
        Ok(clients)
    }

    /// An orchestrator of the only driver (or the first by name), once its plugin serves.
    pub async fn orchestrator(&self) -> Result<Orchestrator, Failure> {
        Orchestrator::connect(self.socket(), &self.kubelet()).await
    }

    /// The socket of the only driver (or the first by name).
    pub fn socket(&self) -> &Path {
        self.sockets.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// All sockets, ordered by the drivers' names.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// The command line; changes apply from the next [`Host::restart`] on.
    pub fn options(&mut self) -> &mut ServeOptions {
        &mut self.options
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.served.process.id()
    }

    /// The directory of the host: a test may put its own files there.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `--kubelet-dir`: all mounts must be below it.
    pub fn kubelet(&self) -> PathBuf {
        self.options.kubelet.clone()
    }

    /// `--path-root`, if the test sets [`HostOptions::any_paths`].
    pub fn paths(&self) -> PathBuf {
        self.root.join("paths")
    }

    /// `--data-dir`.
    pub fn data(&self) -> PathBuf {
        self.options.data.clone()
    }

    /// `--run-dir` of the process that mounts.
    pub fn run(&self) -> PathBuf {
        match &self.mounting {
            Some(mounting) => mounting.options.run.clone(),
            None => self.options.run.clone(),
        }
    }

    /// `--data-dir` of the process that mounts: pools with relative paths are below it.
    pub fn mount_data(&self) -> PathBuf {
        match &self.mounting {
            Some(mounting) => mounting.options.data.clone(),
            None => self.data(),
        }
    }

    /// The separate mounter process, if there is one.
    pub fn mounting(&mut self) -> Option<&mut Mounting> {
        self.mounting.as_mut()
    }

    /// The mounts in the host's directory, from the kernel; stacked mounts are listed more than once.
    pub fn mounts(&self) -> Result<Vec<PathBuf>, Failure> {
        xtask::mountinfo::mounts_below(&self.root)
    }

    /// The log of the host, including earlier processes, and of its mounter.
    pub fn log(&self) -> String {
        let mounter = self.mounting.as_ref().map(|it| &it.options.log);
        let logs = [&self.options.log].into_iter().chain(mounter);
        logs.map(|log| fs::read_to_string(log).unwrap_or_default())
            .collect()
    }

    /// SIGKILL.
    pub fn kill_9(&mut self) -> Result<ExitStatus, Failure> {
        self.served.process.kill_9()
    }

    /// Sends SIGTERM, and waits for the exit.
    pub fn terminate(&mut self) -> Result<ExitStatus, Failure> {
        self.served.process.terminate()
    }

    /// Starts the host again with the same directories, after [`Host::kill_9`], [`Host::terminate`] or an exit.
    pub fn restart(&mut self) -> Result<(), Failure> {
        self.served.process.kill_9()?;
        self.served = Served::start(&self.options)?;
        self.sockets = self.served.sockets()?;
        Ok(())
    }

    /// Kills the host and removes everything without a check of the mounts: for tests that leave mounts on purpose.
    pub fn abandon(mut self) -> Result<Vec<PathBuf>, Failure> {
        self.served.process.kill_9()?;
        if let Some(mounting) = &mut self.mounting {
            mounting.process.kill_9()?;
        }
        self.place.take().map_or(Ok(Vec::new()), Place::remove)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.served.process.kill_9();
        if let Some(mounting) = &mut self.mounting {
            let _ = mounting.process.kill_9();
        }
        // Loop devices of raw block volumes stay until they are detached, which a failed test did not do.
        let _ = loop_devices::detach_below(&self.root);
        let log = self.log();
        let Some(place) = self.place.take() else {
            return;
        };
        // If the cache cannot be read, a later host compiles again: slower, but with the same result.
        let _ = self.components.keep(&self.options.data);
        let left = place.remove();
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

/// Starts a mounter with the options for mounting, and changes `options` to those of a host without any privilege.
fn split_off(
    place: &Place,
    options: &mut ServeOptions,
    user: u32,
    more: Vec<OsString>,
) -> Result<Mounting, Failure> {
    let own = |name: &str| {
        let path = place.root().join(name);
        fs::create_dir(&path).map_err(Failure::cannot(format!("create {}", path.display())))?;
        Ok::<_, Failure>(path)
    };
    if user != 0 {
        readable(place, options)?;
    }
    let (data, folder) = (own("mounter-data")?, own("mounter")?);
    let socket = folder.join("mounter.sock");
    let mounting = Mounting::start(MounterOptions {
        program: options.program.clone(),
        backends: options.backends.clone(),
        data,
        run: options.run.clone(),
        kubelet: options.kubelet.clone(),
        socket: socket.clone(),
        client_uid: user,
        more,
        log: place.root().join("mounter.log"),
    })?;
    mount_at(options, &socket);
    options.wrapper.splice(0..0, without_rights(user));
    for path in [&options.data, &options.sockets, &place.root().to_owned()] {
        chown(path, Some(user), None)
            .map_err(Failure::cannot(format!("chown {}", path.display())))?;
    }
    Ok(mounting)
}

/// Configures the host to use the mounter at this socket for privileged work.
fn mount_at(options: &mut ServeOptions, socket: &Path) {
    options.run = PathBuf::new();
    let address = format!("unix:{}", socket.display());
    options
        .more
        .extend(["--mounter".to_owned(), address].map(OsString::from));
}

/// The build directory may be accessible only to its owner: another user gets a program, a plugin and a document beside the host's directories.
fn readable(place: &Place, options: &mut ServeOptions) -> Result<(), Failure> {
    let program = place.root().join("wasmount");
    program::copy(&options.program, &program)?;
    let (document, component) = documents::directory_of_its_own(place.root(), "directory")?;
    for (file, mode) in [(&program, 0o755), (&document, 0o644), (&component, 0o644)] {
        fs::set_permissions(file, Permissions::from_mode(mode))
            .map_err(Failure::cannot(format!("chmod {}", file.display())))?;
    }
    options.program = program;
    options.backends = vec![document];
    Ok(())
}

/// The command that runs a program as a user, without capabilities and without a way to gain any.
fn without_rights(user: u32) -> Vec<OsString> {
    let user = user.to_string();
    let words = [
        "setpriv",
        "--reuid",
        &user,
        "--regid",
        &user,
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--no-new-privs",
        // Set again: a change of user clears it.
        "--pdeathsig",
        "TERM",
        "--",
    ];
    words.into_iter().map(OsString::from).collect()
}

/// The output of a failing test includes the host's log.
#[expect(
    clippy::print_stderr,
    reason = "the test runner captures what a test prints, and shows it when the test fails"
)]
fn say_log(log: &str) {
    eprintln!("the host's log:\n{log}");
}
