//! The directory and the command lines of Cinder, Keystone and Nova.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use xtask::cluster;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
use xtask::process::Process;
use xtask::python::{self, OpenStack};
use xtask::workspace::Workspace;

/// Keystone's customary port.
const KEYSTONE_PORT: u16 = 5000;

/// Cinder's customary port.
const CINDER_PORT: u16 = 8776;

/// The customary ports of Nova and Placement, which `tests/python/openstack/nova_server.py` has, too.
const NOVA_PORT: u16 = 8774;
const PLACEMENT_PORT: u16 = 8778;

/// How long a token is good: longer than all tests together.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// How long a service waits for a writer of its database. After sqlite's default of 5 s, on a busy machine, it answers with 500.
const DATABASE_LOCKED: Duration = Duration::from_secs(60);

/// Timeout until a process listens: five seconds on an idle machine.
pub(super) const START: Duration = Duration::from_secs(120);

/// Between two polls.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The ending of the names of logs.
const LOG: &str = "log";

/// What the processes are started from.
#[derive(Debug)]
pub(super) struct Launch {
    directory: TempDir,
    openstack: OpenStack,
    address: Ipv4Addr,
}

impl Launch {
    /// A directory with the prepared databases, and a free address.
    pub(super) fn prepare() -> Result<Self, Failure> {
        let openstack = python::openstack(&Workspace::locate()?)?;
        let directory = files::temporary("wasmount-cinder-")?;
        let prepared = openstack.prepared.join(".");
        command::run(
            Command::new("cp")
                .arg("-a")
                .arg(prepared)
                .arg(directory.path()),
        )?;
        Ok(Self {
            directory,
            openstack,
            address: free_address()?,
        })
    }

    /// Where Cinder listens.
    pub(super) fn cinder_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, CINDER_PORT)
    }

    /// Where Nova listens.
    pub(super) fn nova_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, NOVA_PORT)
    }

    /// Where Keystone listens.
    pub(super) fn keystone_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, KEYSTONE_PORT)
    }

    /// The directory of the files that are volumes.
    pub(super) fn volumes(&self) -> PathBuf {
        self.file("state/volumes")
    }

    /// The directory of backups.
    pub(super) fn backups(&self) -> PathBuf {
        self.file("state/backup")
    }

    /// The logs of all processes.
    pub(super) fn log(&self) -> String {
        let files = fs::read_dir(self.directory.path());
        let paths = files.into_iter().flatten().flatten().map(|it| it.path());
        let logs = paths.filter(|path| path.extension().is_some_and(|it| it == LOG));
        logs.map(|log| fs::read_to_string(log).unwrap_or_default())
            .collect()
    }

    pub(super) fn keystone(&self) -> Result<Process, Failure> {
        self.keystone_at(self.keystone_address(), TOKEN_LIFETIME)
    }

    /// Starts another Keystone on the same accounts and keys, whose tokens last for this time, and waits until it listens: all Keystones take them.
    pub(super) fn another_keystone(
        &self,
        token_lifetime: Duration,
    ) -> Result<(Process, SocketAddrV4), Failure> {
        let address = SocketAddrV4::new(free_address()?, KEYSTONE_PORT);
        let mut process = self.keystone_at(address, token_lifetime)?;
        wait(&mut process, address)?;
        Ok((process, address))
    }

    fn keystone_at(
        &self,
        address: SocketAddrV4,
        token_lifetime: Duration,
    ) -> Result<Process, Failure> {
        let mut command = self.python("keystone");
        command
            .args([address.ip().to_string(), address.port().to_string()])
            .env("OS_KEYSTONE_CONFIG_FILES", self.program("keystone.conf"))
            .env("OS_DEFAULT__PUBLIC_ENDPOINT", format!("http://{address}"))
            .env("OS_TOKEN__EXPIRATION", token_lifetime.as_secs().to_string())
            .env("OS_FERNET_TOKENS__KEY_REPOSITORY", self.file("fernet"))
            .env("OS_CREDENTIAL__KEY_REPOSITORY", self.file("credential"));
        let log = format!("keystone-{}.{LOG}", address.ip());
        Process::start(command, &self.file(&log))
    }

    pub(super) fn cinder(&self) -> Result<Process, Failure> {
        let mut command = self.python("cinder");
        let etc = self.openstack.packages.join("etc/cinder");
        let identity = format!("http://{}", self.keystone_address());
        command
            .arg("--config-file")
            .arg(self.program("cinder.conf"))
            .env("OS_DEFAULT__STATE_PATH", self.file("state"))
            .env("OS_DEFAULT__OSAPI_VOLUME_LISTEN", self.address.to_string())
            .env("OS_DEFAULT__API_PASTE_CONFIG", etc.join("api-paste.ini"))
            .env(
                "OS_DEFAULT__RESOURCE_QUERY_FILTERS_FILE",
                etc.join("resource_filters.json"),
            )
            .env("OS_OSLO_CONCURRENCY__LOCK_PATH", self.file("locks"))
            .env("OS_KEYSTONE_AUTHTOKEN__AUTH_URL", &identity)
            .env("OS_KEYSTONE_AUTHTOKEN__WWW_AUTHENTICATE_URI", &identity);
        Process::start(command, &self.file(&format!("cinder.{LOG}")))
    }

    /// Starts Nova, and waits until all of its services are up.
    pub(super) fn nova(&self) -> Result<Process, Failure> {
        let paste = self.openstack.packages.join("etc/nova/api-paste.ini");
        let files = [paste, self.program("nova.conf")];
        let files = files.map(|it| it.display().to_string()).join(";");
        let cinder = format!("http://{}/v3/%(project_id)s", self.cinder_address());
        let placement = format!("http://{}:{PLACEMENT_PORT}", self.address);
        let database = |name: &str| database_url(&self.file(name));
        let mut command = self.python("nova");
        command
            .arg(self.address.to_string())
            .env("OS_NOVA_CONFIG_FILES", files)
            .env("OS_DEFAULT__STATE_PATH", self.file("nova"))
            .env("OS_OSLO_CONCURRENCY__LOCK_PATH", self.file("nova-locks"))
            .env("OS_API_DATABASE__CONNECTION", database("nova-api.sqlite"))
            .env(
                "OS_PLACEMENT_DATABASE__CONNECTION",
                database("placement.sqlite"),
            )
            .env(
                "OS_KEYSTONE_AUTHTOKEN__AUTH_URL",
                format!("http://{}", self.keystone_address()),
            )
            .env("OS_CINDER__ENDPOINT_TEMPLATE", cinder)
            .env(
                "OS_NEUTRON__ENDPOINT_OVERRIDE",
                format!("{placement}/network"),
            )
            .env("OS_PLACEMENT__ENDPOINT_OVERRIDE", placement);
        let mut process = Process::start(command, &self.file(&format!("nova.{LOG}")))?;
        wait(&mut process, self.nova_address())?;
        Ok(process)
    }

    /// oslo.config reads its options from the environment, too.
    fn python(&self, service: &str) -> Command {
        let OpenStack {
            packages, folder, ..
        } = &self.openstack;
        let database = self.file(&format!("{service}.sqlite"));
        let mut command = Process::command();
        command
            .arg("python3")
            .arg(self.program(&format!("{service}_server.py")))
            .current_dir(self.directory.path())
            .env(
                "PYTHONPATH",
                format!("{}:{}", folder.display(), packages.display()),
            )
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONWARNINGS", "ignore")
            .env("OS_DATABASE__CONNECTION", database_url(&database));
        command
    }

    fn program(&self, name: &str) -> PathBuf {
        self.openstack.folder.join(name)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn database_url(file: &Path) -> String {
    let wait_seconds = DATABASE_LOCKED.as_secs();
    format!("sqlite:///{}?timeout={wait_seconds}", file.display())
}

/// Waits until a process listens.
pub(super) fn wait(process: &mut Process, address: SocketAddrV4) -> Result<(), Failure> {
    process.until_listening(START, || TcpStream::connect(address).ok().map(drop))
}

fn free_address() -> Result<Ipv4Addr, Failure> {
    let is_free = |address: &Ipv4Addr| {
        let ports = [KEYSTONE_PORT, CINDER_PORT, NOVA_PORT, PLACEMENT_PORT];
        let mut ports = ports.into_iter();
        ports.all(|port| TcpListener::bind((*address, port)).is_ok())
    };
    cluster::loopback_addresses().find(is_free).ok_or_else(|| {
        Failure::missing(
            "a loopback address with free ports",
            "something listens on a port of OpenStack (5000, 8774, 8776, 8778) of all addresses: end it",
        )
    })
}
