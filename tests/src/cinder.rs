//! A real Cinder and its Keystone, on a loopback address of their own: two processes, databases in files, volumes that are sparse files. Everything
//! is removed at the end. What they cannot show is Nova, iSCSI and backups.

mod api;

pub use api::Answer;

use crate::loop_devices;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::cluster;
use xtask::command;
use xtask::failure::Failure;
use xtask::process::Process;
use xtask::python::{self, OpenStack};
use xtask::workspace::Workspace;

/// Keystone's customary port.
const KEYSTONE_PORT: u16 = 5000;

/// Cinder's customary port.
const CINDER_PORT: u16 = 8776;

/// Timeout until both listen: five seconds on an idle machine.
const START: Duration = Duration::from_secs(120);

/// Between two polls.
const LOOK: Duration = Duration::from_millis(50);

/// The secret of the application credential that `tests/python/openstack/prepare.py` creates.
pub const APPLICATION_SECRET: &str = "application-secret";

/// Where `tests/python/openstack/file_driver.py` names the loop device of an attached volume, and how much of the volume's id the name has.
const BY_ID: &str = "/dev/disk/by-id";
const SERIAL_BYTES: usize = 20;

const KEYSTONE_LOG: &str = "keystone.log";
const CINDER_LOG: &str = "cinder.log";

/// What a test chooses.
#[derive(Debug, Clone, Copy)]
pub struct CinderOptions {
    /// How long a token of Keystone is good.
    pub token_lifetime: Duration,
    /// Volumes that the project may have.
    pub quota_volumes: u32,
}

impl Default for CinderOptions {
    fn default() -> Self {
        Self {
            token_lifetime: Duration::from_secs(3600),
            quota_volumes: 1000,
        }
    }
}

/// A running Cinder.
#[derive(Debug)]
pub struct Cinder {
    // Ended in this order, before the directory is removed.
    cinder: Process,
    keystone: Process,
    directory: TempDir,
    openstack: OpenStack,
    options: CinderOptions,
    address: Ipv4Addr,
}

impl Cinder {
    /// Starts one and waits until it listens. Call it on the thread of the test: the processes end with that thread.
    pub fn start(options: CinderOptions) -> Result<Self, Failure> {
        let openstack = python::openstack(&Workspace::locate()?)?;
        let directory = tempfile::Builder::new()
            .prefix("wasmount-cinder-")
            .tempdir()
            .map_err(Failure::cannot("create a temporary directory"))?;
        let prepared = openstack.prepared.join(".");
        command::run(
            Command::new("cp")
                .arg("-a")
                .arg(prepared)
                .arg(directory.path()),
        )?;
        let address = free_address()?;
        let launch = Launch {
            openstack: &openstack,
            directory: directory.path(),
            options,
            address,
        };
        let mut lab = Self {
            keystone: launch.keystone()?,
            cinder: launch.cinder()?,
            directory,
            openstack,
            options,
            address,
        };
        lab.wait()?;
        Ok(lab)
    }

    /// Ends Cinder as a crash would, and starts it again with its database. Keystone keeps running.
    pub fn crash(&mut self) -> Result<(), Failure> {
        self.cinder.kill_9()?;
        let launch = Launch {
            openstack: &self.openstack,
            directory: self.directory.path(),
            options: self.options,
            address: self.address,
        };
        self.cinder = launch.cinder()?;
        self.wait()
    }

    /// Where Cinder listens.
    pub fn cinder(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, CINDER_PORT)
    }

    /// Where Keystone listens.
    pub fn keystone(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, KEYSTONE_PORT)
    }

    /// The file that is a volume; it is there once its creation has begun.
    pub fn file_of(&self, id: &str) -> PathBuf {
        let volumes = self.directory.path().join("state/volumes");
        volumes.join(format!("volume-{id}"))
    }

    /// Attachments would outlive their volumes: ends their loop devices and removes their names.
    fn detach_all(&self) -> Result<(), Failure> {
        let volumes = self.directory.path().join("state/volumes");
        loop_devices::detach_below(&volumes)?;
        for file in fs::read_dir(&volumes).into_iter().flatten().flatten() {
            let name = file.file_name();
            let id = name.to_string_lossy();
            let serial = id
                .strip_prefix("volume-")
                .and_then(|id| id.get(..SERIAL_BYTES));
            // Absent unless the volume is attached.
            let link = serial.map(|it| Path::new(BY_ID).join(format!("virtio-{it}")));
            let _ = link.map(fs::remove_file);
        }
        Ok(())
    }

    /// The log of both.
    pub fn log(&self) -> String {
        let logs = [KEYSTONE_LOG, CINDER_LOG].map(|log| self.directory.path().join(log));
        logs.map(|log| fs::read_to_string(log).unwrap_or_default())
            .concat()
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let ports = [self.keystone(), self.cinder()];
            if ports.into_iter().all(|it| TcpStream::connect(it).is_ok()) {
                return Ok(());
            }
            for process in [&mut self.keystone, &mut self.cinder] {
                if let Some(status) = process.ended()? {
                    return Err(process.failed(format!("ended at start ({status})")));
                }
            }
            if start.elapsed() > START {
                let how = format!("does not listen after {} s", START.as_secs());
                return Err(self.cinder.failed(how));
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Cinder {
    fn drop(&mut self) {
        let _ = self.cinder.kill_9();
        let _ = self.detach_all();
    }
}

/// The command lines.
struct Launch<'a> {
    openstack: &'a OpenStack,
    directory: &'a Path,
    options: CinderOptions,
    address: Ipv4Addr,
}

impl Launch<'_> {
    fn keystone(&self) -> Result<Process, Failure> {
        let mut command = self.python("keystone");
        let port = KEYSTONE_PORT.to_string();
        command.args([self.address.to_string(), port]);
        let lifetime = self.options.token_lifetime.as_secs().to_string();
        command
            .env("OS_KEYSTONE_CONFIG_FILES", self.file("keystone.conf"))
            .env("OS_DEFAULT__PUBLIC_ENDPOINT", self.identity())
            .env("OS_TOKEN__EXPIRATION", lifetime)
            .env(
                "OS_FERNET_TOKENS__KEY_REPOSITORY",
                self.directory.join("fernet"),
            )
            .env(
                "OS_CREDENTIAL__KEY_REPOSITORY",
                self.directory.join("credential"),
            );
        Process::start(command, &self.directory.join(KEYSTONE_LOG))
    }

    fn cinder(&self) -> Result<Process, Failure> {
        let mut command = self.python("cinder");
        command.arg("--config-file").arg(self.file("cinder.conf"));
        let etc = self.openstack.packages.join("etc/cinder");
        let quota = self.options.quota_volumes.to_string();
        command
            .env("OS_DEFAULT__STATE_PATH", self.directory.join("state"))
            .env("OS_DEFAULT__OSAPI_VOLUME_LISTEN", self.address.to_string())
            .env("OS_DEFAULT__API_PASTE_CONFIG", etc.join("api-paste.ini"))
            .env(
                "OS_DEFAULT__RESOURCE_QUERY_FILTERS_FILE",
                etc.join("resource_filters.json"),
            )
            .env("OS_DEFAULT__QUOTA_VOLUMES", quota)
            .env(
                "OS_OSLO_CONCURRENCY__LOCK_PATH",
                self.directory.join("locks"),
            )
            .env("OS_KEYSTONE_AUTHTOKEN__AUTH_URL", self.identity())
            .env(
                "OS_KEYSTONE_AUTHTOKEN__WWW_AUTHENTICATE_URI",
                self.identity(),
            );
        Process::start(command, &self.directory.join(CINDER_LOG))
    }

    /// oslo.config reads its options from the environment, too.
    fn python(&self, service: &str) -> Command {
        let OpenStack {
            packages, folder, ..
        } = self.openstack;
        let database = self.directory.join(format!("{service}.sqlite"));
        let mut command = Process::command();
        command
            .arg("python3")
            .arg(self.file(&format!("{service}_server.py")))
            .current_dir(self.directory)
            .env(
                "PYTHONPATH",
                format!("{}:{}", folder.display(), packages.display()),
            )
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONWARNINGS", "ignore")
            .env(
                "OS_DATABASE__CONNECTION",
                format!("sqlite:///{}", database.display()),
            );
        command
    }

    fn identity(&self) -> String {
        format!("http://{}:{KEYSTONE_PORT}", self.address)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.openstack.folder.join(name)
    }
}

fn free_address() -> Result<Ipv4Addr, Failure> {
    let is_free = |address: &Ipv4Addr| {
        let mut ports = [KEYSTONE_PORT, CINDER_PORT].into_iter();
        ports.all(|port| TcpListener::bind((*address, port)).is_ok())
    };
    cluster::loopback_addresses().find(is_free).ok_or_else(|| {
        Failure::missing(
            "a loopback address with free ports",
            "something listens on Cinder's or Keystone's port of all addresses: end it",
        )
    })
}
