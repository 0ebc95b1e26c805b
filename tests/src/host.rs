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

use crate::compiled;
use crate::documents;
use crate::loop_devices;
use crate::mounter::{MounterOptions, Mounting};
use crate::orchestrator::Orchestrator;
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
    /// Mount in a process of its own (`wasmount mounter`), and serve as this user without any capability; another than root serves a copy of
    /// plugins/directory. Absent: one process, as root.
    pub split: Option<u32>,
    /// Take volumes at any path below [`Host::paths`] too, and not at kubelet's paths alone: csi-sanity makes up its own.
    pub any_paths: bool,
    /// Mount, and have the pools, where another host does: the socket of its mounter.
    pub mounter: Option<PathBuf>,
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
    /// Where another process mounts.
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
    /// Starts one and waits until its sockets take connections. Call it on the thread of the test: the host ends with that thread.
    pub fn start(options: HostOptions) -> Result<Self, Failure> {
        let HostOptions {
            mut backends,
            role,
            wrapper,
            more,
            split,
            any_paths,
            mounter,
        } = options;
        let workspace = Workspace::locate()?;
        if backends.is_empty() {
            backends.push(workspace.backend_document("directory"));
        }
        place::sweep(PREFIX);
        let place = Place::create(PREFIX)?;
        let mut options = ServeOptions {
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
        // A user without rights could not read what root compiled.
        if split.is_none_or(|user| user == 0) {
            compiled::seed(&options.data, &options.backends)
                .map_err(Failure::io("share compiled plugins with the host"))?;
        }
        let mut served = Served::start(&options)?;
        let sockets = served.sockets()?;
        Ok(Self {
            root: place.root().to_owned(),
            place: Some(place),
            options,
            served,
            mounting,
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

    /// `--path-root`, where the test takes [`HostOptions::any_paths`].
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
            Some(mounting) => mounting.options().run.clone(),
            None => self.options.run.clone(),
        }
    }

    /// `--data-dir` of the process that mounts: pools of relative paths lie there.
    pub fn mount_data(&self) -> PathBuf {
        match &self.mounting {
            Some(mounting) => mounting.options().data.clone(),
            None => self.data(),
        }
    }

    /// The process that mounts, where it is another.
    pub fn mounting(&mut self) -> Option<&mut Mounting> {
        self.mounting.as_mut()
    }

    /// What is mounted in the host's directory, from the kernel; stacked mounts stand more than once.
    pub fn mounts(&self) -> Result<Vec<PathBuf>, Failure> {
        xtask::mountinfo::mounts_below(&self.root)
    }

    /// Everything that it and its earlier lives have logged.
    pub fn log(&self) -> String {
        let mounter = self.mounting.as_ref().map(|it| &it.options().log);
        let logs = [&self.options.log].into_iter().chain(mounter);
        logs.map(|log| fs::read_to_string(log).unwrap_or_default())
            .collect()
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
        if let Some(mounting) = &mut self.mounting {
            mounting.kill_9()?;
        }
        self.place.take().map_or(Ok(Vec::new()), Place::take_away)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.served.kill_9();
        if let Some(mounting) = &mut self.mounting {
            let _ = mounting.kill_9();
        }
        // Those of raw block volumes stay until they are detached, which a failed test did not do.
        let _ = loop_devices::detach_below(&self.root);
        let log = self.log();
        let Some(place) = self.place.take() else {
            return;
        };
        // A host that could not be read from compiles again: slower, and all the same.
        let _ = compiled::keep(&self.options.data);
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

/// Starts a mounter with what `options` say of mounts, and changes them to a host that has no right at all.
fn split_off(
    place: &Place,
    options: &mut ServeOptions,
    user: u32,
    more: Vec<OsString>,
) -> Result<Mounting, Failure> {
    let own = |name: &str| {
        let path = place.root().join(name);
        fs::create_dir(&path).map_err(Failure::io(format!("create {}", path.display())))?;
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
        chown(path, Some(user), None).map_err(Failure::io(format!("chown {}", path.display())))?;
    }
    Ok(mounting)
}

/// Has the mounter at this socket do what needs rights.
fn mount_at(options: &mut ServeOptions, socket: &Path) {
    options.run = PathBuf::new();
    let address = format!("unix:{}", socket.display());
    options
        .more
        .extend(["--mounter".to_owned(), address].map(OsString::from));
}

/// The build directory may be one that only its owner can enter: another user gets a program, a plugin and a document beside the host's
/// directories.
fn readable(place: &Place, options: &mut ServeOptions) -> Result<(), Failure> {
    let program = place.root().join("wasmount");
    fs::copy(&options.program, &program).map_err(Failure::io("copy the host's program"))?;
    let (document, component) = documents::directory_of_its_own(place.root(), "directory")?;
    for (file, mode) in [(&program, 0o755), (&document, 0o644), (&component, 0o644)] {
        fs::set_permissions(file, Permissions::from_mode(mode))
            .map_err(Failure::io(format!("chmod {}", file.display())))?;
    }
    options.program = program;
    options.backends = vec![document];
    Ok(())
}

/// Runs a program as a user, without any capability and without a way to any.
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
        // Again: a change of user clears it.
        "--pdeathsig",
        "TERM",
        "--",
    ];
    words.into_iter().map(OsString::from).collect()
}

/// What the host said belongs to what the failing test says.
#[expect(
    clippy::print_stderr,
    reason = "the test runner captures what a test prints, and shows it when the test fails"
)]
fn say_log(log: &str) {
    eprintln!("the host's log:\n{log}");
}
